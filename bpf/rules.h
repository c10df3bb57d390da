/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * A frame's step by a rule of the dictionary: whatever a row's own bits can't tell. Rare, so each
 * slot is read by itself.
 */
#ifndef PROFD_RULES_H
#define PROFD_RULES_H

#include "bpf/registers.h"
#include "bpf/tables.h"
#include "bpf/window.h"

static __always_inline bool profd_read_word(__u64 address, __u64 *word)
{
	return !bpf_probe_read_user(word, sizeof(*word), (void *)address);
}

/* The walk's frame's register; false where the frame doesn't know it. */
static __always_inline bool profd_register(struct profd_scratch *scratch, __u32 number,
					   __u64 *value)
{
	struct profd_walk *walk = &scratch->walk;

	switch (number) {
	case PROFD_DWARF_RSP:
		*value = walk->sp;
		return true;
	case PROFD_DWARF_RBP:
		*value = walk->bp;
		return !(walk->lost & PROFD_LOST_BP);
	case PROFD_DWARF_RBX:
		*value = walk->bx;
		return !(walk->lost & PROFD_LOST_BX);
	}
	if (number >= PROFD_DWARF_REGISTERS || !profd_was_interrupted(walk))
		return false;
	profd_know_registers(scratch);
	*value = scratch->registers[number % PROFD_DWARF_REGISTERS];
	return true;
}

/* 0, or a profd_user_end. */
static __always_inline __u32 profd_cfa_of(struct profd_scratch *scratch,
					  const struct profd_rule *rule, __u64 *cfa)
{
	struct profd_walk *walk = &scratch->walk;

	if (rule->kind == PROFD_RULE_PLT) {
		*cfa = walk->sp + 8 + (((__s64)(walk->ip & 15) >= rule->cfa_add) ? 8 : 0);
		return 0;
	}
	if (!profd_register(scratch, rule->cfa_register, cfa))
		return PROFD_END_REGISTER_LOST;
	*cfa += rule->cfa_offset;
	if (rule->kind == PROFD_RULE_REGISTER)
		return 0;
	if (!profd_read_word(*cfa, cfa))
		return PROFD_END_STACK_UNREADABLE;
	*cfa += rule->cfa_add;
	return 0;
}

/* Gets a register of the caller back, from what stands in scratch->walk, which is the callee's; the
 * bit of `lost` where it can't be had. */
static __always_inline __u32 profd_get_back(struct profd_scratch *scratch, __u64 cfa, __u8 saved,
					    __s32 offset, __u32 lost, __u64 *value)
{
	__u64 slot = cfa + offset;

	if (saved == PROFD_SAVED_NOT)
		return scratch->walk.lost & lost;
	if (saved == PROFD_SAVED_AT_CFA)
		return (__s64)(slot - profd_frame_floor(&scratch->walk)) >= 0 &&
				       profd_read_word(slot, value)
			       ? 0
			       : lost;
	if (saved == PROFD_SAVED_REGISTER)
		return profd_register(scratch, offset, value) ? 0 : lost;
	return lost;
}

/* The return address; 0, or a profd_user_end. */
static __always_inline __u32 profd_return_address(struct profd_scratch *scratch,
						  const struct profd_rule *rule, __u64 cfa,
						  __u64 *address)
{
	__u64 slot = cfa + rule->ra_offset;

	if (rule->ra_saved == PROFD_SAVED_REGISTER)
		return profd_register(scratch, rule->ra_offset, address) ? 0
									 : PROFD_END_REGISTER_LOST;
	if (rule->ra_saved != PROFD_SAVED_AT_CFA)
		return PROFD_END_NO_ROW;
	if ((__s64)(slot - scratch->walk.sp) < 0)
		return PROFD_END_CFA_NOT_ABOVE;
	return profd_read_word(slot, address) ? 0 : PROFD_END_STACK_UNREADABLE;
}

static __always_inline __u32 profd_step_by_cfa(struct profd_scratch *scratch,
					       const struct profd_rule *rule)
{
	struct profd_walk *walk = &scratch->walk;
	__u64 cfa = 0, ip = 0, bp = walk->bp, bx = walk->bx;
	__u32 end = profd_cfa_of(scratch, rule, &cfa);
	__u32 lost;

	if (end)
		return end;
	if ((__s64)(cfa - walk->sp) <= 0)
		return PROFD_END_CFA_NOT_ABOVE;
	end = profd_return_address(scratch, rule, cfa, &ip);
	if (end)
		return end;
	lost = profd_get_back(scratch, cfa, rule->rbp_saved, rule->rbp_offset, PROFD_LOST_BP, &bp);
	lost |= profd_get_back(scratch, cfa, rule->rbx_saved, rule->rbx_offset, PROFD_LOST_BX, &bx);
	walk->ip = ip;
	walk->sp = cfa;
	walk->bp = bp;
	walk->bx = bx;
	walk->lost = lost;
	walk->how = PROFD_FRAME_ROW;
	return 0;
}

/* To where the signal hit, on whatever stack that was. */
static __always_inline __u32 profd_step_by_signal(struct profd_scratch *scratch, __s32 offset)
{
	struct profd_walk *walk = &scratch->walk;

	if (walk->signal_frames >= PROFD_MAX_SIGNAL_FRAMES)
		return PROFD_END_CFA_NOT_ABOVE;
	if (bpf_probe_read_user(scratch->sigcontext, sizeof(scratch->sigcontext),
				(void *)(walk->sp + offset)))
		return PROFD_END_STACK_UNREADABLE;
	profd_registers_of_signal(scratch);
	walk->ip = scratch->sigcontext[PROFD_SIGCONTEXT_IP];
	walk->sp = scratch->registers[PROFD_DWARF_RSP];
	walk->bp = scratch->registers[PROFD_DWARF_RBP];
	walk->bx = scratch->registers[PROFD_DWARF_RBX];
	walk->lost = 0;
	walk->how = PROFD_FRAME_SIGNAL;
	walk->signal_frames++;
	/* The window is of the other stack, and may be cut short where this one goes on. */
	walk->window_start = profd_read_window(profd_frame_floor(walk));
	return 0;
}

/* To the caller, by a rule of the dictionary; 0, or a profd_user_end. Global, so that it is
 * verified once. */
__noinline int profd_follow_rule(__u32 index)
{
	struct profd_scratch *scratch = profd_scratch_here();
	const struct profd_rule *rule = bpf_map_lookup_elem(&profd_rules, &index);

	if (!scratch || !rule)
		return PROFD_END_NO_ROW;
	switch (rule->kind) {
	case PROFD_RULE_END:
		return PROFD_END_ENTRY;
	case PROFD_RULE_REGISTER:
	case PROFD_RULE_DEREF:
	case PROFD_RULE_PLT:
		return profd_step_by_cfa(scratch, rule);
	case PROFD_RULE_SIGNAL:
		return profd_step_by_signal(scratch, rule->cfa_offset);
	}
	return PROFD_END_NO_ROW;
}

#endif
