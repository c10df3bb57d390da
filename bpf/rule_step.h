/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The step from a frame to its caller by a rule of the dictionary (unwind_rows.h), for the BPF
 * programs and for user space, which continues deferred stacks.
 *
 * Before it includes this header, the includer defines the type PROFD_FRAME with the members ip,
 * sp, bp, bx, lost, how and callee_was_interrupted, the type PROFD_STEPPER, which has all that a
 * step reads, and these functions:
 *
 *     PROFD_FRAME *profd_frame_of(PROFD_STEPPER *stepper);
 *     bool profd_was_interrupted(const PROFD_FRAME *frame);
 *     __u64 profd_frame_floor(const PROFD_FRAME *frame); lowest address of a saved register
 *     bool profd_read_word(PROFD_STEPPER *stepper, __u64 address, __u64 *word);
 *     __u64 profd_interrupted_register(PROFD_STEPPER *stepper, __u32 number);
 *     __u32 profd_step_by_signal(PROFD_STEPPER *stepper, __s32 offset);
 */
#ifndef PROFD_RULE_STEP_H
#define PROFD_RULE_STEP_H

#include "bpf/profd_abi.h"
#include "bpf/unwind_rows.h"

static __always_inline __u32 profd_with_bit(__u32 set, __u32 bit, bool value)
{
	return value ? set | bit : set & ~bit;
}

static __always_inline __u64 profd_plus(__u64 base, __s32 offset)
{
	return base + (__u64)(__s64)offset;
}

/* A register of the frame. False if its value is unknown. */
static __always_inline bool profd_register(PROFD_STEPPER *stepper, __u32 number, __u64 *value)
{
	PROFD_FRAME *frame = profd_frame_of(stepper);

	switch (number) {
	case PROFD_DWARF_RSP:
		*value = frame->sp;
		return true;
	case PROFD_DWARF_RBP:
		*value = frame->bp;
		return !(frame->lost & PROFD_LOST_BP);
	case PROFD_DWARF_RBX:
		*value = frame->bx;
		return !(frame->lost & PROFD_LOST_BX);
	}
	if (number >= PROFD_DWARF_REGISTERS ||
	    !(profd_was_interrupted(frame) || frame->callee_was_interrupted))
		return false;
	*value = profd_interrupted_register(stepper, number);
	return true;
}

struct profd_base {
	__u64 address; /* value of the rule's cfa_register */
	__u64 cfa;
};

/* The CFA of a PROFD_RULE_DEREF. Returns PROFD_NOT_ENDED or a profd_user_end. */
static __always_inline __u32 profd_deref_cfa(PROFD_STEPPER *stepper, const struct profd_rule *rule,
					     struct profd_base *base)
{
	__u64 index = 0;

	if (rule->cfa_index && !profd_register(stepper, rule->cfa_index - 1, &index))
		return PROFD_END_REGISTER_LOST;
	if (!profd_read_word(stepper, profd_plus(base->address + 8 * index, rule->cfa_offset),
			     &base->cfa))
		return PROFD_END_STACK_UNREADABLE;
	base->cfa = profd_plus(base->cfa, rule->cfa_add);
	return PROFD_NOT_ENDED;
}

/* Returns PROFD_NOT_ENDED or a profd_user_end. */
static __always_inline __u32 profd_find_base(PROFD_STEPPER *stepper, const struct profd_rule *rule,
					     struct profd_base *base)
{
	PROFD_FRAME *frame = profd_frame_of(stepper);

	if (rule->kind == PROFD_RULE_PLT) {
		base->cfa = frame->sp + 8 + ((__s64)(frame->ip & 15) >= rule->cfa_add ? 8 : 0);
		return PROFD_NOT_ENDED;
	}
	if (!profd_register(stepper, rule->cfa_register, &base->address))
		return PROFD_END_REGISTER_LOST;
	if (rule->kind == PROFD_RULE_DEREF)
		return profd_deref_cfa(stepper, rule, base);
	base->cfa = profd_plus(base->address, rule->cfa_offset);
	return PROFD_NOT_ENDED;
}

/* Computes a register of the caller. False if its value can't be known: a slot below the frame's
 * floor can't belong to the frame. */
static __always_inline bool profd_restore_register(PROFD_STEPPER *stepper,
						   const struct profd_base *base, __u8 saved,
						   __s32 offset, __u64 *value)
{
	__u64 slot = saved == PROFD_SAVED_AT_REGISTER ? base->address : base->cfa;

	if (saved == PROFD_SAVED_REGISTER)
		return profd_register(stepper, (__u32)offset, value);
	if (saved != PROFD_SAVED_AT_CFA && saved != PROFD_SAVED_AT_REGISTER)
		return false;
	slot = profd_plus(slot, offset);
	return (__s64)(slot - profd_frame_floor(profd_frame_of(stepper))) >= 0 &&
	       profd_read_word(stepper, slot, value);
}

/* Computes the return address. Returns PROFD_NOT_ENDED or a profd_user_end. */
static __always_inline __u32 profd_return_address(PROFD_STEPPER *stepper,
						  const struct profd_rule *rule, __u64 cfa,
						  __u64 *address)
{
	__u64 slot = profd_plus(cfa, rule->ra_offset);

	if (rule->ra_saved == PROFD_SAVED_REGISTER)
		return profd_register(stepper, (__u32)rule->ra_offset, address)
			       ? PROFD_NOT_ENDED
			       : PROFD_END_REGISTER_LOST;
	if (rule->ra_saved != PROFD_SAVED_AT_CFA)
		return PROFD_END_NO_ROW;
	if ((__s64)(slot - profd_frame_of(stepper)->sp) < 0)
		return PROFD_END_CFA_NOT_ABOVE;
	return profd_read_word(stepper, slot, address) ? PROFD_NOT_ENDED
						       : PROFD_END_STACK_UNREADABLE;
}

static __always_inline __u32 profd_step_by_cfa(PROFD_STEPPER *stepper,
					       const struct profd_rule *rule)
{
	PROFD_FRAME *frame = profd_frame_of(stepper);
	struct profd_base base = {};
	__u64 ip = 0, bp = frame->bp, bx = frame->bx;
	__u32 lost = frame->lost;
	__u32 end = profd_find_base(stepper, rule, &base);
	/* As in glibc's vfork(): a leaf that has its return address in a register has no frame. */
	bool has_frame = rule->ra_saved != PROFD_SAVED_REGISTER || !profd_was_interrupted(frame);

	if (end != PROFD_NOT_ENDED)
		return end;
	if ((__s64)(base.cfa - frame->sp) < (has_frame ? 1 : 0))
		return PROFD_END_CFA_NOT_ABOVE;
	end = profd_return_address(stepper, rule, base.cfa, &ip);
	if (end != PROFD_NOT_ENDED)
		return end;
	if (rule->rbp_saved != PROFD_SAVED_NOT)
		lost = profd_with_bit(lost, PROFD_LOST_BP,
				      !profd_restore_register(stepper, &base, rule->rbp_saved,
							      rule->rbp_offset, &bp));
	if (rule->rbx_saved != PROFD_SAVED_NOT)
		lost = profd_with_bit(lost, PROFD_LOST_BX,
				      !profd_restore_register(stepper, &base, rule->rbx_saved,
							      rule->rbx_offset, &bx));
	frame->ip = ip;
	frame->sp = base.cfa;
	frame->bp = bp;
	frame->bx = bx;
	frame->lost = lost;
	frame->callee_was_interrupted = profd_was_interrupted(frame);
	frame->how = PROFD_FRAME_ROW;
	return PROFD_NOT_ENDED;
}

/* Returns PROFD_NOT_ENDED or a profd_user_end; PROFD_END_NO_ROW for an unknown rule. */
static __always_inline __u32 profd_step_by_rule(PROFD_STEPPER *stepper,
						const struct profd_rule *rule)
{
	switch (rule->kind) {
	case PROFD_RULE_END:
		return PROFD_END_ENTRY;
	case PROFD_RULE_REGISTER:
	case PROFD_RULE_DEREF:
	case PROFD_RULE_PLT:
		return profd_step_by_cfa(stepper, rule);
	case PROFD_RULE_SIGNAL:
		return profd_step_by_signal(stepper, rule->cfa_offset);
	}
	return PROFD_END_NO_ROW;
}

#endif
