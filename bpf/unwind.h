/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The user stack, by our own walk: never bpf_get_stack() with the user flag, which panics kernels
 * where uprobes are active. A step turns the registers of a frame into those of its caller, by the
 * row of its address or by the frame pointer; one stack may mix both. unwind_rows.h says how.
 */
#ifndef PROFD_UNWIND_H
#define PROFD_UNWIND_H

#include "bpf/registers.h"
#include "bpf/rules.h"
#include "bpf/spans.h"
#include "bpf/window.h"

#define PROFD_ADDRESS_MASK ((1ULL << PROFD_FRAME_ADDRESS_BITS) - 1)

/* What a turn of the walk needs at hand. Its state is in scratch->walk: there the verifier follows
 * no values, and verifies one turn for all. */
struct profd_walk_context {
	struct profd_scratch *scratch;
	struct profd_memory *memory;
};

/* Why a frame without a row is the last one, when its frame pointer is of no use. */
static __always_inline __u32 profd_end_without_row(const struct profd_walk *walk)
{
	if (walk->span_rows == PROFD_ROWS_READY)
		return PROFD_END_NO_ROW;
	return walk->span_rows == PROFD_ROWS_NONE ? PROFD_END_NO_TABLE : PROFD_END_NO_FRAME_POINTER;
}

/* To the caller, by the frame pointer. 0, or a profd_user_end. A frame pointer of 0 ends a chain
 * only for whom a frame pointer led there: elsewhere the register may be in other use. */
static __always_inline __u32 profd_step_by_frame_pointer(struct profd_scratch *scratch)
{
	struct profd_walk *walk = &scratch->walk;
	__u64 bp = walk->bp;

	if (walk->lost & PROFD_LOST_BP)
		return PROFD_END_REGISTER_LOST;
	if (!bp && walk->how == PROFD_FRAME_POINTER)
		return PROFD_END_FP_ZERO;
	if (bp % 8 || bp < walk->sp)
		return profd_end_without_row(walk);
	if (!profd_have_slots(walk, bp, bp + 8))
		return PROFD_END_STACK_UNREADABLE;
	walk->bp = profd_window_word(scratch, bp);
	walk->ip = profd_window_word(scratch, bp + 8);
	walk->sp = bp + 16;
	walk->lost = PROFD_LOST_BX;
	walk->callee_was_whole = 0;
	walk->how = PROFD_FRAME_POINTER;
	return 0;
}

/* To the caller, by a rule that stands in the row itself. */
static __always_inline __u32 profd_step_by_inline_rule(struct profd_scratch *scratch, __u32 rule)
{
	struct profd_walk *walk = &scratch->walk;
	__u64 bp_slot = rule & PROFD_RULE_SLOT_MASK;
	__u64 bx_slot = rule >> PROFD_RULE_RBX_SHIFT & PROFD_RULE_SLOT_MASK;
	__u64 lowest = bp_slot > bx_slot ? bp_slot : bx_slot;
	__u64 cfa = walk->sp;

	if (rule & PROFD_RULE_CFA_RBP) {
		cfa = walk->bp;
		if (walk->lost & PROFD_LOST_BP)
			return PROFD_END_REGISTER_LOST;
	}
	cfa += 8ULL * (rule >> PROFD_RULE_CFA_SHIFT & PROFD_RULE_CFA_MASK);
	lowest = cfa - 8 * (lowest ? lowest : 1);
	/* One branch for both: neither may be negative. */
	__s64 below = (cfa - 8 - walk->sp) | (lowest - profd_frame_floor(walk));

	barrier_var(below); /* or each half gets ranges, and each range states to verify */
	if (below < 0)
		return PROFD_END_CFA_NOT_ABOVE;
	if (!profd_have_slots(walk, lowest, cfa - 8))
		return PROFD_END_STACK_UNREADABLE;
	walk->ip = profd_window_word(scratch, cfa - 8);
	if (bp_slot) {
		walk->bp = profd_window_word(scratch, cfa - 8 * bp_slot);
		walk->lost &= ~PROFD_LOST_BP;
	}
	if (bx_slot) {
		walk->bx = profd_window_word(scratch, cfa - 8 * bx_slot);
		walk->lost &= ~PROFD_LOST_BX;
	}
	walk->sp = cfa;
	walk->callee_was_whole = profd_was_interrupted(walk);
	walk->how = PROFD_FRAME_ROW;
	return 0;
}

/* To the caller. 0, or a profd_user_end. */
static __always_inline __u32 profd_step(struct profd_scratch *scratch,
					const struct profd_memory *memory, __u64 pc)
{
	struct profd_walk *walk = &scratch->walk;

	if (walk->span_rows == PROFD_ROWS_LATE)
		return PROFD_END_DEFERRED;
	if (walk->span_rows == PROFD_ROWS_READY) {
		__u32 rule = profd_rule_at(memory, walk, pc);

		if (!(rule & PROFD_RULE_IN_DICTIONARY))
			return profd_step_by_inline_rule(scratch, rule);
		__u32 end = profd_follow_rule(rule & ~PROFD_RULE_IN_DICTIONARY);

		if (end != PROFD_END_NO_ROW)
			return end;
	}
	return profd_step_by_frame_pointer(scratch);
}

static __always_inline void profd_push_frame(struct profd_scratch *scratch, __u32 mapping)
{
	struct profd_walk *walk = &scratch->walk;
	__u32 at = walk->next;

	if (at >= PROFD_MAX_KERNEL_FRAMES + PROFD_MAX_USER_FRAMES)
		return;
	scratch->words[at] = (walk->ip & PROFD_ADDRESS_MASK) |
			     (__u64)mapping << PROFD_FRAME_MAPPING_SHIFT |
			     (__u64)walk->how << PROFD_FRAME_HOW_SHIFT;
	walk->next = at + 1;
	walk->frames++;
}

/* One frame: an address that lies in no executable mapping is no frame, but for the leaf, which is
 * known. */
static long profd_walk_frame(__u32 index, struct profd_walk_context *context)
{
	struct profd_scratch *scratch = context->scratch;
	struct profd_walk *walk = &scratch->walk;
	__u64 pc = walk->ip - !PROFD_HOW_IN(walk->how, PROFD_EXACT);
	__u32 end = 0;

	if (pc - walk->span_start >= walk->span_bytes)
		end = profd_enter_span(pc);
	if (end) {
		if (!walk->frames)
			profd_push_frame(scratch, PROFD_NO_MAPPING);
	} else {
		profd_push_frame(scratch, walk->mapping);
		end = profd_step(scratch, context->memory, pc);
	}
	if (!end)
		return 0;
	walk->end = end;
	return 1;
}

/* Appends the user stack to the sample. */
static __always_inline void profd_walk_user(struct profd_scratch *scratch,
					    struct profd_memory *memory,
					    struct pt_regs___kernel *regs)
{
	struct profd_walk_context context = {.scratch = scratch, .memory = memory};
	struct profd_sample *sample = &scratch->sample;
	struct profd_walk *walk = &scratch->walk;

	walk->ip = regs->ip;
	walk->sp = regs->sp;
	walk->bp = regs->bp;
	walk->bx = regs->bx;
	walk->lost = 0;
	walk->how = sample->context == PROFD_CONTEXT_SYSCALL ? PROFD_FRAME_SYSCALL
							     : PROFD_FRAME_INTERRUPTED;
	walk->span_bytes = 0;
	walk->signal_frames = 0;
	walk->callee_was_whole = 0;
	walk->next = sample->kernel_frames;
	walk->frames = 0;
	walk->end = PROFD_END_DEPTH_LIMIT;
	/* Now, so that what the last tick read is in no walk's reach. */
	walk->window_start = profd_read_window(profd_frame_floor(walk));
	bpf_loop(PROFD_MAX_USER_FRAMES, profd_walk_frame, &context, 0);
	sample->user_frames = walk->frames;
	sample->user_end = walk->end;
}

#endif
