/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The ends of blocks, at the switch back to the thread: each is counted for its sessions, and sent
 * if its start was sent, or if it was long (block_abi.h).
 *
 * A start without its end is a block that is lost after its stack was taken. So starts and whole
 * blocks stop where the ring is five eighths full, those of users where it is half full, and ends
 * where it is three quarters full: the end of a block that was sent nearly always has room.
 *
 * A thread whose switch back was not seen still has its block when it is switched away from: the
 * kernel can skip a tracepoint. The CPU time of the thread says when that block ended.
 *
 * A session has a block if it had it at its start, or when it was listed, and is live at its end.
 * It counts what comes after profd_filter.counted_from_ns, as user space does of its samples. Since
 * a slot may be another session's by then, sessions are checked again if any began since
 * (profd_filter.began_ns).
 * A session that is not live any more is still sent the long blocks: else one that ends before the
 * list of those that are open is made (open_blocks.h) would be in neither.
 */
#ifndef PROFD_BLOCKS_H
#define PROFD_BLOCKS_H

#include "bpf/block_abi.h"
#include "bpf/block_choice.h"
#include "bpf/fill.h"
#include "bpf/filter.h"
#include "bpf/identity.h"
#include "bpf/ring.h"
#include "bpf/threads.h"

/* A whole block and the words that follow it. */
struct profd_whole {
	struct profd_whole_block block;
	__u64 frames[PROFD_MAX_KERNEL_FRAMES];
};

struct profd_switch_state {
	struct profd_walk_tokens tokens;
	__u64 next_id;
	__u64 chance;		/* of the block that starts now */
	struct profd_comm comm; /* of the process that was matched last */
	struct profd_whole whole;
};

PROFD_PER_CPU(profd_switch_state);

/* User space writes it before a program is attached. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct profd_block_rate);
} profd_block_rate SEC(".maps");

static __always_inline struct profd_block_rate *profd_rate_now(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&profd_block_rate, &zero);
}

#define PROFD_ID_BITS 48

/* An id that no block had, also none of an object that was loaded before: the numbers begin with
 * the time in units of 1,024 ns, and no CPU samples a block in so short a time. An iterator that a
 * switch interrupts may draw one too. */
static __always_inline __u64 profd_draw_id(struct profd_switch_state *here, __u64 now)
{
	__u64 cpu = bpf_get_smp_processor_id();

	if (!here->next_id)
		(void)__sync_val_compare_and_swap(&here->next_id, 0, now >> 10);
	__u64 number = __sync_fetch_and_add(&here->next_id, 1);

	return cpu << PROFD_ID_BITS | (number & ((1ULL << PROFD_ID_BITS) - 1));
}

/* Whether the ring has no room for the start of a block, or a whole one, of these sessions. */
static __always_inline bool profd_is_over_share(void *ring, const struct profd_filter *filter,
						__u32 sessions)
{
	return profd_is_for_ends(ring) ||
	       (!(sessions & ~filter->of_users) && profd_is_half_full(ring));
}

/* Not 0: it was not sent. */
__noinline int profd_send_end(__u64 id, __u64 end_ns)
{
	void *ring = profd_ring_here();
	struct profd_block_end end = {
		.header = {.size = sizeof(end), .type = PROFD_RECORD_BLOCK_END},
		.id = id,
		.end_ns = end_ns,
	};

	if (!ring || profd_is_for_ticks(ring) ||
	    bpf_ringbuf_output(ring, &end, sizeof(end), profd_wake_when_half_full(ring)))
		return 1;
	return 0;
}

/* The terms of struct profd_block_counters, by their places. */
enum profd_block_term_place {
	PROFD_TERM_BLOCKED = 0,
	PROFD_TERM_SAMPLED = 1,
	PROFD_TERM_LONG_UNSAMPLED = 2,
	PROFD_TERM_SHORT_UNSAMPLED = 3,
	PROFD_TERM_LOST = 4, /* plus a profd_loss */
	PROFD_TERM_COUNT = PROFD_TERM_LOST + PROFD_LOSS_COUNT,
};

_Static_assert(sizeof(struct profd_block_counters) ==
		       PROFD_TERM_COUNT * sizeof(struct profd_block_term),
	       "each term has its place");

static __always_inline __u64 profd_term_of_loss(__u32 loss)
{
	return (__u64)PROFD_TERM_LOST + loss;
}

/* Adds a block to both sides of the slot's identity; nothing if `bit` is 0. */
static __always_inline void profd_add_block(struct profd_switch_counters *counters, __u64 slot,
					    __u64 term, __u64 ns, __u64 bit)
{
	struct profd_block_term *terms = (void *)&counters->of_session[slot];

	terms[PROFD_TERM_BLOCKED].count += bit;
	terms[PROFD_TERM_BLOCKED].ns += ns & -bit;
	terms[term].count += bit;
	terms[term].ns += ns & -bit;
}

/* The number of the only bit that is set: of those below it. */
static __always_inline __u32 profd_number_of_bit(__u32 bit)
{
	__u32 below = bit - 1;

	below -= below >> 1 & 0x55555555;
	below = (below & 0x33333333) + (below >> 2 & 0x33333333);
	below = (below + (below >> 4)) & 0x0f0f0f0f;
	return (below * 0x01010101) >> 24 & (PROFD_MAX_SESSIONS - 1);
}

/* Of a block that began before one of the slots counts: the part since then, and none if it is over
 * by then. Without branches, as profd_begun_by(). */
__noinline int profd_count_part(__u32 sessions, __u64 term, __u64 start_ns, __u64 end_ns)
{
	struct profd_switch_counters *counters = profd_switch_counters_here();
	struct profd_filter *filter = profd_filter_now();

	if (!counters || !filter || term >= PROFD_TERM_COUNT)
		return 0;
	for (__u64 slot = 0; slot < PROFD_MAX_SESSIONS && sessions >> slot; slot++) {
		__u64 from_ns = filter->counted_from_ns[slot];
		/* All are far below 2^63. */
		__u64 is_early = (start_ns - from_ns) >> 63;
		__u64 is_over = (end_ns - from_ns) >> 63;

		barrier_var(is_early);
		barrier_var(is_over);
		__u64 first_ns = start_ns + ((from_ns - start_ns) & -is_early);

		profd_add_block(counters, slot, term, end_ns - first_ns,
				(sessions >> slot & 1) & (1 - is_over));
	}
	return 0;
}

/* Most blocks are of one session, which needs no loop. With 64-bit numbers, of which Linux 6.1's
 * verifier keeps the bounds. */
__noinline int profd_count_block(__u32 sessions, __u64 term, __u64 start_ns, __u64 end_ns)
{
	struct profd_switch_counters *counters = profd_switch_counters_here();
	struct profd_filter *filter = profd_filter_now();
	__u64 ns = end_ns - start_ns;

	if (!counters || !filter || !sessions || term >= PROFD_TERM_COUNT)
		return 0;
	if (start_ns < filter->all_counted_ns)
		return profd_count_part(sessions, term, start_ns, end_ns);
	if (!(sessions & (sessions - 1))) {
		profd_add_block(counters, profd_number_of_bit(sessions), term, ns, 1);
		return 0;
	}
	for (__u64 slot = 0; slot < PROFD_MAX_SESSIONS && sessions >> slot; slot++)
		profd_add_block(counters, slot, term, ns, sessions >> slot & 1);
	return 0;
}

/* Most blocks are short ones of one session, which are counted without a call of a function. */
static __always_inline void profd_count_short(struct profd_thread *thread,
					      const struct profd_filter *filter, __u32 sessions,
					      __u64 start_ns, __u64 end_ns)
{
	__u32 others = sessions & (sessions - 1);

	barrier_var(others); /* else the compiler counts the bits of `sessions` instead */
	thread->unsampled++;
	thread->unsampled_ns += end_ns - start_ns;
	if (!sessions || others || start_ns < filter->all_counted_ns) {
		profd_count_block(sessions, PROFD_TERM_SHORT_UNSAMPLED, start_ns, end_ns);
		return;
	}
	struct profd_switch_counters *counters = profd_switch_counters_here();

	if (counters)
		profd_add_block(counters, profd_number_of_bit(sessions), PROFD_TERM_SHORT_UNSAMPLED,
				end_ns - start_ns, 1);
}

static __always_inline __u16 profd_call_of(const struct pt_regs___kernel *regs, __u8 context)
{
	if (context != PROFD_CONTEXT_SYSCALL || regs->orig_ax >= PROFD_NO_CALL)
		return PROFD_NO_CALL;
	return regs->orig_ax;
}

/* Fills in all but id, flags and sessions, for a task that is not on a CPU. False if the process is
 * not visible in profd's namespace. */
static __always_inline bool profd_describe_block(struct profd_whole *whole,
						 const struct profd_thread *thread,
						 struct task_struct *task, __u64 start_ns,
						 __u64 end_ns)
{
	struct profd_whole_block *block = &whole->block;
	struct pt_regs___kernel *regs = (void *)bpf_task_pt_regs(task);
	struct task_struct *leader = task->group_leader;

	if (!profd_identify(leader, &block->process))
		return false;
	profd_owner_of(task, &block->owner);
	block->header.type = PROFD_RECORD_WHOLE_BLOCK;
	block->start_ns = start_ns;
	block->end_ns = end_ns;
	block->tid = profd_tid_of(task);
	block->state = thread->state;
	block->context = profd_context_of_task(task, regs, false);
	block->call = profd_call_of(regs, block->context);
	block->user_ip = block->context <= PROFD_CONTEXT_TRAP ? regs->ip : 0;
	block->reserved = 0;
	__builtin_memset(block->thread, 0, sizeof(block->thread));
	bpf_probe_read_kernel_str(block->thread, sizeof(block->thread), task->comm);
	long bytes = bpf_get_task_stack(task, whole->frames, sizeof(whole->frames), 0);

	block->kernel_frames = bytes > 0 ? (__u32)bytes / 8 : 0;
	return true;
}

/* Completes the size, and returns it, bounded for the verifier. */
static __always_inline __u64 profd_size_whole(struct profd_whole *whole)
{
	__u64 frames = whole->block.kernel_frames;

	if (frames > PROFD_MAX_KERNEL_FRAMES)
		frames = PROFD_MAX_KERNEL_FRAMES;
	__u64 bytes = sizeof(whole->block) + frames * 8;

	whole->block.header.size = bytes;
	return bytes;
}

/* Returns the block's term. */
static __always_inline __u64 profd_send_whole(struct profd_whole *whole,
					      const struct profd_filter *filter)
{
	void *ring = profd_ring_here();

	if (!ring)
		return profd_term_of_loss(PROFD_LOSS_NO_RING);
	if (profd_is_over_share(ring, filter, whole->block.sessions))
		return profd_term_of_loss(PROFD_LOSS_RING_SHARE);
	__u64 bytes = profd_size_whole(whole);

	if (bpf_ringbuf_output(ring, whole, bytes, profd_wake_when_half_full(ring)))
		return profd_term_of_loss(profd_ring_failure(ring, bytes));
	return PROFD_TERM_LONG_UNSAMPLED;
}

/* Where the thread was in a block whose end was not seen. */
static __always_inline void profd_forget_place(struct profd_whole *whole)
{
	whole->block.kernel_frames = 0;
	whole->block.user_ip = 0;
	whole->block.call = PROFD_NO_CALL;
}

/* Sends a long block whose start was not sent, to those of the sessions that may see the thread
 * now, and counts it for those that are live. */
static __always_inline void profd_report_long(const struct profd_thread *thread,
					      struct task_struct *task,
					      const struct profd_filter *filter, __u32 sessions,
					      __u64 start_ns, __u64 end_ns, bool was_seen)
{
	struct profd_switch_state *here = profd_switch_state_here();

	if (!here || !profd_describe_block(&here->whole, thread, task, start_ns, end_ns))
		return;
	struct profd_whole_block *block = &here->whole.block;

	if (!was_seen)
		profd_forget_place(&here->whole);
	sessions = profd_permitted(filter, sessions, &block->owner);
	if (!sessions)
		return;
	block->id = 0;
	block->flags = thread->from_before ? PROFD_BLOCK_FROM_BEFORE : 0;
	block->sessions = sessions;
	profd_count_block(sessions & filter->live, profd_send_whole(&here->whole, filter), start_ns,
			  end_ns);
}

#define PROFD_ENDED_ID (~0ULL) /* no block has it */

/*
 * The id of a block whose start_ns was cleared just now. An iterator that lists the block meanwhile
 * gives it an id, and looks at start_ns then (profd_id_of_open()); here it is the other way round.
 * So that one of both sees what the other wrote, the store must be done before the load, and that
 * takes a full barrier: the exchange. It also shows the iterator whether the id was seen here,
 * where the block is reported without it or is left to the list.
 *
 * A block whose start was sent has its id since then. A short one that was not chosen stands for no
 * time: where it is listed in this moment, user space counts it as one whose end did not arrive.
 * That leaves the long ones without a start, which are few.
 */
static __always_inline __u64 profd_id_of_ended(struct profd_thread *thread, bool is_long)
{
	barrier();
	if (thread->chosen || !is_long)
		return *(volatile __u64 *)&thread->id;
	return __sync_lock_test_and_set(&thread->id, PROFD_ENDED_ID);
}

/* Ends the open block of a thread, which runs next, or has run since then if that was not seen. */
static __always_inline void profd_end_block(struct profd_thread *thread, struct task_struct *task,
					    __u64 now, bool was_seen)
{
	struct profd_filter *filter = profd_filter_now();
	struct profd_block_rate *rate = profd_rate_now();
	__u64 start_ns = thread->start_ns;
	/* The clocks of two CPUs can be some nanoseconds apart. */
	__u64 end_ns = now > start_ns ? now : start_ns;
	__u64 ns = end_ns - start_ns;

	thread->start_ns = 0;
	__u64 id = profd_id_of_ended(thread, rate && ns >= rate->long_ns);

	profd_learn_block(&thread->history, ns);
	if (id && profd_send_end(id, end_ns)) {
		thread->unsent_id = id;
		thread->unsent_end_ns = end_ns;
	}
	if (!filter || !rate)
		return;
	/* A slot keeps these bits from before it is live until it is released. */
	__u32 sessions = thread->open_sessions & (filter->blocked | filter->runnable);

	if (sessions && thread->generation != filter->match_generation)
		sessions = profd_begun_by(sessions, thread->listed_ns);
	if (!sessions)
		return;
	__u32 live = sessions & filter->live;

	if (thread->chosen)
		profd_count_block(live, PROFD_TERM_SAMPLED, start_ns, end_ns);
	else if (thread->lost && ns < rate->long_ns)
		profd_count_block(live, profd_term_of_loss(thread->lost - 1), start_ns, end_ns);
	else if (ns < rate->long_ns)
		profd_count_short(thread, filter, live, start_ns, end_ns);
	else if (id) /* listed: user space has all but its end */
		profd_count_block(live, PROFD_TERM_LONG_UNSAMPLED, start_ns, end_ns);
	else
		profd_report_long(thread, task, filter, sessions, start_ns, end_ns, was_seen);
}

/* Ends the block of the current thread, which is switched away from. A stamp of the iterator that
 * came too late is no block; one that was listed since did not. */
static __always_inline void profd_end_missed_block(struct profd_thread *thread,
						   struct task_struct *task, __u64 now)
{
	if (thread->from_before && !thread->id)
		thread->start_ns = 0;
	else
		profd_end_block(thread, task, now - (task->se.sum_exec_runtime - thread->ran_ns),
				false);
}

#endif
