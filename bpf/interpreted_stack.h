/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The record of a sample's interpreted frames, which goes in front of the sample, and what a sample
 * says of it. Every stack that met an interpreter is counted once as sent, or by the reason why
 * not.
 */
#ifndef PROFD_INTERPRETED_STACK_H
#define PROFD_INTERPRETED_STACK_H

#include "bpf/cache.h"
#include "bpf/counters.h"
#include "bpf/filter.h"
#include "bpf/interpreted_code.h"
#include "bpf/interpreted_count.h"
#include "bpf/interpreters.h"
#include "bpf/ring.h"

/* Whether the current process has met an interpreter. Without, a sample has nothing to do here. */
static __always_inline bool profd_may_interpret(const struct profd_scratch *scratch,
						const struct profd_cache *cache)
{
	return scratch->space <= PROFD_UNCACHED_SPACE && cache->spaces[scratch->space].runtime;
}

/* The native stack ended before it was complete, so that it may have lost the loop's frames. */
static __always_inline bool profd_is_broken_off(const struct profd_sample *sample)
{
	return sample->user_end != PROFD_END_ENTRY && sample->user_end != PROFD_END_FP_ZERO;
}

/* As for the sample that follows (profd_send_sample() of the object). */
static __always_inline bool profd_has_stack_room(void *ring, const struct profd_filter *filter,
						 __u32 sessions)
{
	if (PROFD_INTERPRETED_OF_BLOCK && profd_is_for_ends(ring))
		return false;
	return (sessions & ~filter->of_users) || !profd_is_half_full(ring);
}

static __always_inline void profd_fill_interpreted(struct profd_interpreter *at,
						   const struct profd_sample *sample)
{
	struct profd_interpreted_stack *stack = &at->stack;

	stack->header.type = PROFD_RECORD_INTERPRETED_STACK;
	stack->time_ns = sample->time_ns;
	stack->process = sample->process;
	stack->cpu = sample->cpu;
	stack->entries = at->entry_count;
	stack->kind = at->runtime.kind;
	stack->layout = at->runtime.layout;
	stack->end = at->end;
	stack->of_block = PROFD_INTERPRETED_OF_BLOCK;
	__builtin_memset(stack->reserved, 0, sizeof(stack->reserved));
}

/* False: there is no room in the ring. */
static __always_inline bool profd_send_stack(struct profd_interpreter *at,
					     const struct profd_sample *sample, __u32 sessions)
{
	void *ring = profd_ring_here();
	struct profd_filter *filter = profd_filter_now();
	__u64 bytes = at->entry_count;

	if (!ring || !filter || !profd_has_stack_room(ring, filter, sessions))
		return false;
	profd_fill_interpreted(at, sample);
	barrier_var(bytes);
	if (bytes > PROFD_MAX_INTERPRETED_ENTRIES)
		return false; /* never true; a bound for the verifier */
	bytes = sizeof(at->stack) + bytes * sizeof(at->entries[0]);
	at->stack.header.size = bytes;
	/* The sample wakes user space, if need be. */
	return !bpf_ringbuf_output(ring, &at->stack, bytes, BPF_RB_NO_WAKEUP);
}

/* What came of the walk: a chain without any frame is that of a thread that runs no code now. */
static __always_inline __u32 profd_begin_of(const struct profd_interpreter *at)
{
	if (at->begin != PROFD_BEGIN_DONE || at->entry_count)
		return at->begin;
	return at->end == PROFD_CHAIN_COMPLETE ? PROFD_BEGIN_NO_THREAD_STATE
					       : PROFD_BEGIN_UNREADABLE;
}

/* Sends the interpreted frames of the sample, whose native stack was walked. A stack that broke off
 * before it met the interpreter has them walked now. Global, so that it is verified once. */
__noinline int profd_send_interpreted(__u32 sessions)
{
	struct profd_interpreter *at = profd_interpreter_here();
	struct profd_scratch *scratch = profd_scratch_here();
	struct profd_counters *counters = profd_counters_here();

	if (!profd_with_interpreters || !at || !scratch || !counters)
		return 0;
	struct profd_sample *sample = &scratch->sample;

	if (!scratch->walk.interpreted && profd_is_broken_off(sample))
		profd_walk_interpreter(scratch->walk.sp, 0, 0);
	if (!scratch->walk.interpreted || at->begin == PROFD_BEGIN_NO_RUNTIME)
		return 0;
	profd_drop_doubtful(at);
	__u32 begin = profd_begin_of(at);

	profd_count_interpreted(counters, PROFD_INTERPRETED_STACKS, 1);
	if (begin != PROFD_BEGIN_DONE) {
		profd_count_interpreted(counters, PROFD_COUNT_OF_BEGIN(begin), 1);
		if (begin != PROFD_BEGIN_NO_THREAD_STATE)
			sample->interpreted = PROFD_INTERPRETED_LOST;
		return 0;
	}
	profd_count_interpreted(counters, PROFD_INTERPRETED_FRAMES, at->frame_count);
	if (at->end != PROFD_CHAIN_COMPLETE)
		profd_count_interpreted(counters, PROFD_COUNT_OF_END(at->end), 1);
	profd_announce_codes(at, counters);
	bool was_sent = profd_send_stack(at, sample, sessions);

	sample->interpreted = was_sent ? PROFD_INTERPRETED_SENT : PROFD_INTERPRETED_LOST;
	profd_count_interpreted(
		counters, was_sent ? PROFD_INTERPRETED_STACKS_SENT : PROFD_INTERPRETED_NO_ROOM, 1);
	return 0;
}

#endif
