/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The walk over the interpreted frames of a stack, and its place in the walk of the native ones.
 *
 * The first native frame in a file with an interpreter starts it: the chain of interpreted frames
 * is walked at once, which gives the anchors of all segments in their order. From then on a native
 * frame that contains the next anchor is the loop of that segment, and its index goes to the
 * segment's boundary. The native walk does not depend on any of it.
 */
#ifndef PROFD_INTERPRETERS_H
#define PROFD_INTERPRETERS_H

#include "bpf/cache.h"
#include "bpf/runtimes.h"
#include "bpf/scratch.h"
#include "bpf/thread_slots.h"

/* What stands for the CFA where the native walk ended: of a frame of the loop, most of its own. */
#define PROFD_GUESSED_FRAME_BYTES 0x200

static __always_inline void profd_reset_chain(struct profd_interpreter *at)
{
	at->thread = 0;
	at->frame = 0;
	at->cframe = 0;
	at->doubtful = 0;
	at->last_anchor = 0;
	at->end = PROFD_CHAIN_FRAME_LIMIT;
	at->entry_count = 0;
	at->frame_count = 0;
	at->segment_count = 0;
	at->reads = 0;
	at->failed_reads = 0;
	at->unannounced = 0;
	at->met = 0;
	at->place = 0;
	at->codes_tried = 0;
	at->code_bytes = 0;
	at->codes_ns = 0;
	at->left_ns = PROFD_MAX_CHAIN_NS;
	at->clock_ns = profd_clock_ns();
	at->window_start = 0;
	at->window_low = ~0ULL;
	at->last_read = 0;
	at->stack_start = 0;
	at->stack_bytes = 0;
	for (__u32 i = 0; i < PROFD_CODE_MEMO; i++) {
		at->memo[i].code = 0;
		barrier(); /* otherwise clang might replace the loop by a call of memset() */
	}
}

/* Copies the space's runtime and its layout. False: there is none any more. */
static __always_inline bool profd_copy_runtime(struct profd_interpreter *at,
					       const struct profd_space *space)
{
	__u32 number = space->runtime;
	const struct profd_runtime *runtime = bpf_map_lookup_elem(&profd_runtimes, &number);

	if (!runtime)
		return false;
	at->runtime = *runtime;
	number = at->runtime.layout;
	const struct profd_layout *layout = bpf_map_lookup_elem(&profd_layouts, &number);

	if (!layout)
		return false;
	at->layout = *layout;
	at->bias = space->runtime_base + at->runtime.bias;
	return at->runtime.kind == PROFD_RUNTIME_PYTHON || at->runtime.kind == PROFD_RUNTIME_PHP;
}

/* The offset in the runtime's file. */
static __always_inline __u64 profd_file_offset_of(const struct profd_interpreter *at, __u64 pc)
{
	return pc - (at->bias - at->runtime.bias);
}

static __always_inline bool profd_is_loop(const struct profd_interpreter *at, __u64 offset)
{
	const struct profd_loop_part *parts = at->runtime.loop;

	return offset - parts[0].start < parts[0].bytes || offset - parts[1].start < parts[1].bytes;
}

/* Whether segments have no anchors. */
static __always_inline bool profd_goes_by_loop(const struct profd_interpreter *at)
{
	return at->runtime.kind == PROFD_RUNTIME_PHP ||
	       profd_python_of(at)->anchor == PROFD_PYTHON_NO_ANCHOR;
}

/* To the leaf of the chain. Returns a profd_begin. */
static __always_inline __u32 profd_begin_chain(struct profd_interpreter *at)
{
	struct task_struct *task = bpf_get_current_task_btf();

	at->is_first_thread = task->pid == task->tgid;
	at->fsbase = profd_thread_base();
	if (!at->fsbase)
		return PROFD_BEGIN_NO_THREAD_STATE;
	__u32 failure = profd_find_thread();

	if (failure)
		return failure;
	return at->runtime.kind == PROFD_RUNTIME_PHP ? profd_php_begin(at) : profd_python_begin(at);
}

/* Leaves to the announcements what the walk has not taken. */
static __always_inline void profd_leave_time(struct profd_interpreter *at)
{
	profd_charge_time(at);
	at->codes_ns = at->left_ns + PROFD_MAX_CODES_NS;
}

/* The boundary of a segment. */
static __always_inline struct profd_interpreted_entry *
profd_boundary_of(struct profd_interpreter *at, __u64 number)
{
	barrier_var(number);
	__u64 place = at->segments[number & (PROFD_MAX_SEGMENTS - 1)];

	barrier_var(place);
	if (place >= PROFD_MAX_INTERPRETED_ENTRIES)
		place = 0; /* never true; a bound for the verifier */
	return &at->entries[place];
}

struct profd_chain_context {
	struct profd_interpreter *at;
};

static long profd_python_chain_step(__u32 index, struct profd_chain_context *context)
{
	return profd_python_step(context->at);
}

/* By itself, so that each has a stack of its own. */
static long profd_php_chain_step(__u32 index, struct profd_chain_context *context)
{
	return profd_php_step(context->at);
}

/* Walks the chain of the current thread. `pc`, `sp` and `cfa` are those of the native frame that
 * met the interpreter; pc is 0 where none did, and cfa is 0 where it is unknown. Global, so that it
 * is verified once and not in each iteration of the native walk. */
__noinline int profd_walk_interpreter(__u64 sp, __u64 pc, __u64 cfa)
{
	struct profd_interpreter *at = profd_interpreter_here();
	struct profd_scratch *scratch = profd_scratch_here();
	struct profd_cache *cache = profd_cache_here();

	if (!profd_with_interpreters || !at || !scratch || !cache ||
	    scratch->space > PROFD_UNCACHED_SPACE)
		return 0;
	const struct profd_space *space = &cache->spaces[scratch->space];
	struct profd_chain_context context = {.at = at};
	struct profd_walk *walk = &scratch->walk;

	barrier_var(space); /* otherwise clang might read the index again, behind the check */
	walk->interpreted = 1;
	profd_reset_chain(at);
	at->begin = PROFD_BEGIN_NO_RUNTIME;
	if (!profd_copy_runtime(at, space))
		return 0;
	at->process_hash = profd_hash_process(&scratch->sample.process);
	at->is_leaf = pc && walk->frames == 1;
	at->leaf_ip = profd_file_offset_of(at, pc);
	at->leaf_sp = sp;
	at->leaf_cfa = cfa > sp ? cfa : sp + PROFD_GUESSED_FRAME_BYTES;
	at->begin = profd_begin_chain(at);
	if (at->begin != PROFD_BEGIN_DONE)
		return 0;
	if (at->runtime.kind == PROFD_RUNTIME_PHP)
		bpf_loop(PROFD_MAX_INTERPRETED_ENTRIES + 1, profd_php_chain_step, &context, 0);
	else
		bpf_loop(PROFD_MAX_INTERPRETED_ENTRIES + 1, profd_python_chain_step, &context, 0);
	if (at->unannounced)
		profd_leave_time(at);
	walk->by_loop = profd_goes_by_loop(at);
	walk->anchor = at->segment_count ? profd_boundary_of(at, 0)->value : 0;
	return 0;
}

/* Of an interpreter without anchors: each frame of the loop is the next segment's. */
static __always_inline void profd_pass_loop(struct profd_interpreter *at, struct profd_walk *walk,
					    __u64 pc)
{
	if (at->met >= at->segment_count) {
		walk->by_loop = 0;
		return;
	}
	if (!profd_is_loop(at, profd_file_offset_of(at, pc)))
		return;
	/* The native frame that the walk pushed last. */
	profd_boundary_of(at, at->met)->position = walk->frames - 1;
	at->met++;
}

/* More anchors are passed at the next frame in the file. */
#define PROFD_MAX_PASSED_ANCHORS 16

/* Goes to the first anchor that is not below the CFA. The frames of those below sp were not met:
 * the native walk stepped over them. But where all anchors are below, the walk is on another stack,
 * from which a signal frame may lead back. */
static __always_inline void profd_pass_anchors(struct profd_interpreter *at,
					       struct profd_walk *walk, __u64 sp, __u64 cfa)
{
	bool is_met = false;

	if (cfa <= sp || at->last_anchor < sp)
		return;
	for (__u32 i = 0; i < PROFD_MAX_PASSED_ANCHORS; i++) {
		if (at->met >= at->segment_count) {
			walk->anchor = 0;
			return;
		}
		struct profd_interpreted_entry *boundary = profd_boundary_of(at, at->met);
		__u64 anchor = boundary->value;

		walk->anchor = anchor;
		if (anchor >= cfa)
			return;
		if (anchor >= sp && !is_met) {
			boundary->position = walk->frames - 1;
			is_met = true;
			profd_resolve_doubt(at, sp, cfa);
		}
		at->met++;
	}
}

/* Passes the native frame that the walk pushed last, whose file has an interpreter. `cfa` is 0
 * where the walk ended with it. Global, so that it is verified once. */
__noinline int profd_pass_interpreter_frame(__u64 sp, __u64 pc, __u64 cfa)
{
	struct profd_interpreter *at = profd_interpreter_here();
	struct profd_scratch *scratch = profd_scratch_here();

	if (!profd_with_interpreters || !at || !scratch)
		return 0;
	struct profd_walk *walk = &scratch->walk;

	if (!walk->interpreted)
		profd_walk_interpreter(sp, pc, cfa);
	if (walk->by_loop)
		profd_pass_loop(at, walk, pc);
	else if (walk->anchor)
		profd_pass_anchors(at, walk, sp, cfa);
	return 0;
}

/* Whether a native frame is of interest, whose file has an interpreter and from which the walk has
 * stepped. An anchor of 0 is none. */
static __always_inline bool profd_concerns_interpreter(const struct profd_walk *walk)
{
	return !walk->interpreted || walk->by_loop || walk->anchor - 1 < walk->sp - 1;
}

#endif
