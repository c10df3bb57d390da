/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The walk of the user stack. bpf_get_stack() with the user flag can't be used: it panics kernels
 * with active uprobes. A step computes the registers of the caller from those of the frame, by the
 * unwind row of its address or by the frame pointer; one stack can mix both (unwind_rows.h).
 */
#ifndef PROFD_UNWIND_H
#define PROFD_UNWIND_H

#include "bpf/frame.h"
#include "bpf/interpreters.h"
#include "bpf/rules.h"
#include "bpf/spans.h"

/* The context of an iteration of the walk. The state is in scratch->walk: the verifier does not
 * track values there, so it verifies one iteration for all. */
struct profd_walk_context {
	struct profd_scratch *scratch;
	struct profd_cache *cache;
};

/* The reason to end at a frame with neither a row nor a usable frame pointer. */
static __always_inline __u32 profd_end_without_row(const struct profd_walk *walk)
{
	if (walk->span_rows == PROFD_ROWS_READY)
		return PROFD_END_NO_ROW;
	return walk->span_rows == PROFD_ROWS_NONE ? PROFD_END_NO_TABLE : PROFD_END_NO_FRAME_POINTER;
}

/* Steps to the caller by the frame pointer. Returns PROFD_NOT_ENDED or a profd_user_end. A frame
 * pointer of 0 marks the end of a chain only if the previous step used one too: otherwise rbp may
 * hold any value. */
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
	if (!profd_load_slots(walk, bp, bp + 8))
		return PROFD_END_STACK_UNREADABLE;
	walk->bp = profd_window_word(scratch, bp);
	walk->ip = profd_window_word(scratch, bp + 8);
	walk->sp = bp + 16;
	walk->lost = PROFD_LOST_BX;
	walk->callee_was_interrupted = 0;
	walk->how = PROFD_FRAME_POINTER;
	return PROFD_NOT_ENDED;
}

/* Steps to the caller by a rule in the row itself. Returns PROFD_NOT_ENDED or a profd_user_end. */
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
	/* One branch checks both differences: neither may be negative. */
	__s64 below = (cfa - 8 - walk->sp) | (lowest - profd_frame_floor(walk));

	barrier_var(below); /* otherwise the verifier tracks ranges of both, in many states */
	if (below < 0)
		return PROFD_END_CFA_NOT_ABOVE;
	if (!profd_load_slots(walk, lowest, cfa - 8))
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
	walk->callee_was_interrupted = profd_was_interrupted(walk);
	walk->how = PROFD_FRAME_ROW;
	return PROFD_NOT_ENDED;
}

/* Steps to the caller. Returns PROFD_NOT_ENDED or a profd_user_end. */
static __always_inline __u32 profd_step(struct profd_scratch *scratch,
					const struct profd_cache *cache, __u64 pc)
{
	struct profd_walk *walk = &scratch->walk;

	if (walk->span_rows == PROFD_ROWS_PENDING)
		return PROFD_END_DEFERRED;
	if (walk->span_rows == PROFD_ROWS_READY) {
		__u32 rule = profd_rule_at(cache, walk, pc);

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
	scratch->words[at] = (walk->ip & PROFD_FRAME_ADDRESS_MASK) |
			     (__u64)mapping << PROFD_FRAME_MAPPING_SHIFT |
			     (__u64)walk->how << PROFD_FRAME_HOW_SHIFT;
	walk->next = at + 1;
	walk->frames++;
}

/* Adds a frame and steps to its caller. An address outside executable mappings is not a frame,
 * except for the leaf, whose address is certain. */
static long profd_walk_frame(__u32 index, struct profd_walk_context *context)
{
	struct profd_scratch *scratch = context->scratch;
	struct profd_walk *walk = &scratch->walk;
	__u64 pc = walk->ip - !PROFD_HOW_IN(walk->how, PROFD_HOW_EXACT);
	__u32 end = 0;

	if (pc - walk->span_start >= walk->span_bytes)
		end = profd_enter_span(pc);
	if (end) {
		if (!walk->frames)
			profd_push_frame(scratch, PROFD_NO_MAPPING);
	} else {
		__u64 sp = walk->sp;

		profd_push_frame(scratch, walk->mapping);
		end = profd_step(scratch, context->cache, pc);
		/* Behind the step, which says where the frame ends. */
		if (walk->span_runtime && profd_concerns_interpreter(walk))
			profd_pass_interpreter_frame(sp, pc, end ? 0 : walk->sp);
	}
	if (!end)
		return 0;
	walk->end = end;
	return 1;
}

/* Appends the user stack to the sample. */
static __always_inline void profd_walk_user(struct profd_scratch *scratch,
					    struct profd_cache *cache,
					    struct pt_regs___kernel *regs)
{
	struct profd_walk_context context = {.scratch = scratch, .cache = cache};
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
	walk->span_runtime = 0;
	walk->interpreted = 0;
	walk->by_loop = 0;
	walk->anchor = 0;
	walk->signal_frames = 0;
	walk->span_searches = 0;
	walk->callee_was_interrupted = 0;
	walk->next = sample->kernel_frames;
	walk->frames = 0;
	walk->end = PROFD_END_DEPTH_LIMIT;
	/* Replaces the stack memory of the last tick, so that the walk can't use it. */
	walk->window_start = profd_read_window(profd_frame_floor(walk));
	bpf_loop(PROFD_MAX_USER_FRAMES, profd_walk_frame, &context, 0);
	sample->user_frames = walk->frames;
	sample->user_end = walk->end;
}

#endif
