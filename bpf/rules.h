/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The step from a frame to its caller by a rule of the dictionary. These are rare, so each stack
 * slot is read by itself.
 */
#ifndef PROFD_RULES_H
#define PROFD_RULES_H

#include "bpf/registers.h"
#include "bpf/tables.h"
#include "bpf/window.h"

static __always_inline __u32 profd_with_bit(__u32 set, __u32 bit, bool value)
{
	return value ? set | bit : set & ~bit;
}

static __always_inline bool profd_read_word(__u64 address, __u64 *word)
{
	return !bpf_probe_read_user(word, sizeof(*word), (void *)address);
}

/* A register of the walk's current frame. False if its value is unknown. */
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
	if (number >= PROFD_DWARF_REGISTERS ||
	    !(profd_was_interrupted(walk) || walk->callee_was_interrupted))
		return false;
	profd_load_registers(scratch);
	*value = scratch->registers[number % PROFD_DWARF_REGISTERS];
	return true;
}

struct profd_base {
	__u64 address; /* value of the rule's cfa_register */
	__u64 cfa;
};

/* The CFA of a PROFD_RULE_DEREF. Returns 0 or a profd_user_end. */
static __always_inline __u32 profd_deref_cfa(struct profd_scratch *scratch,
					     const struct profd_rule *rule, struct profd_base *base)
{
	__u64 index = 0;

	if (rule->cfa_index && !profd_register(scratch, rule->cfa_index - 1, &index))
		return PROFD_END_REGISTER_LOST;
	if (!profd_read_word(base->address + 8 * index + rule->cfa_offset, &base->cfa))
		return PROFD_END_STACK_UNREADABLE;
	base->cfa += rule->cfa_add;
	return 0;
}

/* Returns 0 or a profd_user_end. */
static __always_inline __u32 profd_find_base(struct profd_scratch *scratch,
					     const struct profd_rule *rule, struct profd_base *base)
{
	struct profd_walk *walk = &scratch->walk;

	if (rule->kind == PROFD_RULE_PLT) {
		base->cfa = walk->sp + 8 + ((__s64)(walk->ip & 15) >= rule->cfa_add ? 8 : 0);
		return 0;
	}
	if (!profd_register(scratch, rule->cfa_register, &base->address))
		return PROFD_END_REGISTER_LOST;
	if (rule->kind == PROFD_RULE_DEREF)
		return profd_deref_cfa(scratch, rule, base);
	base->cfa = base->address + rule->cfa_offset;
	return 0;
}

/* Computes a register of the caller. False if its value can't be known: a slot below the frame's
 * floor can't belong to the frame. */
static __always_inline bool profd_restore_register(struct profd_scratch *scratch,
						   const struct profd_base *base, __u8 saved,
						   __s32 offset, __u64 *value)
{
	__u64 slot = saved == PROFD_SAVED_AT_REGISTER ? base->address : base->cfa;

	if (saved == PROFD_SAVED_REGISTER)
		return profd_register(scratch, offset, value);
	if (saved != PROFD_SAVED_AT_CFA && saved != PROFD_SAVED_AT_REGISTER)
		return false;
	slot += offset;
	return (__s64)(slot - profd_frame_floor(&scratch->walk)) >= 0 &&
	       profd_read_word(slot, value);
}

/* Computes the return address. Returns 0 or a profd_user_end. */
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
	struct profd_base base = {};
	__u64 ip = 0, bp = walk->bp, bx = walk->bx;
	__u32 lost = walk->lost;
	__u32 end = profd_find_base(scratch, rule, &base);

	if (end)
		return end;
	if ((__s64)(base.cfa - walk->sp) <= 0)
		return PROFD_END_CFA_NOT_ABOVE;
	end = profd_return_address(scratch, rule, base.cfa, &ip);
	if (end)
		return end;
	if (rule->rbp_saved != PROFD_SAVED_NOT)
		lost = profd_with_bit(lost, PROFD_LOST_BP,
				      !profd_restore_register(scratch, &base, rule->rbp_saved,
							      rule->rbp_offset, &bp));
	if (rule->rbx_saved != PROFD_SAVED_NOT)
		lost = profd_with_bit(lost, PROFD_LOST_BX,
				      !profd_restore_register(scratch, &base, rule->rbx_saved,
							      rule->rbx_offset, &bx));
	walk->ip = ip;
	walk->sp = base.cfa;
	walk->bp = bp;
	walk->bx = bx;
	walk->lost = lost;
	walk->callee_was_interrupted = profd_was_interrupted(walk);
	walk->how = PROFD_FRAME_ROW;
	return 0;
}

/* To the frame that the signal interrupted, which may be on another stack. */
static __always_inline __u32 profd_step_by_signal(struct profd_scratch *scratch, __s32 offset)
{
	struct profd_walk *walk = &scratch->walk;

	if (walk->signal_frames >= PROFD_MAX_SIGNAL_FRAMES)
		return PROFD_END_CFA_NOT_ABOVE;
	if (bpf_probe_read_user(scratch->sigcontext, sizeof(scratch->sigcontext),
				(void *)(walk->sp + offset)))
		return PROFD_END_STACK_UNREADABLE;
	profd_load_signal_registers(scratch);
	walk->ip = scratch->sigcontext[PROFD_SIGCONTEXT_IP];
	walk->sp = scratch->registers[PROFD_DWARF_RSP];
	walk->bp = scratch->registers[PROFD_DWARF_RBP];
	walk->bx = scratch->registers[PROFD_DWARF_RBX];
	walk->lost = 0;
	walk->how = PROFD_FRAME_SIGNAL;
	walk->signal_frames++;
	/* The current window may belong to another stack. */
	walk->window_start = profd_read_window(profd_frame_floor(walk));
	return 0;
}

/* Steps to the caller by a rule of the dictionary. Returns 0 or a profd_user_end. Global, so that
 * it is verified once. */
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
