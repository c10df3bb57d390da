/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The threads whose blocks are measured. Each has a storage of its own in the kernel, which is the
 * filter of most switches too: a thread without one costs one look-up.
 *
 * Storages are made for the threads that exist, by the iterator profd_watch_threads, and for those
 * that they start, by a hook: at a switch no memory may be allocated. The storage of a thread is
 * freed with it.
 */
#ifndef PROFD_THREADS_H
#define PROFD_THREADS_H

#include "bpf/block_abi.h"
#include "bpf/block_choice.h"
#include "bpf/filter.h"
#include "bpf/own_identity.h"

/*
 * Written by the switches of the thread, of which one runs at a time, and read by iterators, which
 * may run meanwhile on another CPU. So start_ns is set last and cleared first. An iterator changes
 * an open block only by atomic operations, and then checks that the block has not ended.
 */
struct profd_thread {
	__u64 start_ns;	 /* of the block that is open and counts; 0: none */
	__u64 id;	 /* of the end record that the block needs; 0: it needs none */
	__u64 listed_ns; /* when open_sessions was last made: at the start, or when it was listed */
	__u64 matched_ns;
	__u64 ran_ns; /* CPU time of the thread when the open block began */
	struct profd_block_history history;
	struct profd_block_draw draw;
	__u32 sessions;	     /* those that sample the thread, by the match of matched_ns ... */
	__u32 generation;    /* ... under this profd_filter.match_generation ... */
	__u32 exec_id;	     /* ... and of this image */
	__u32 open_sessions; /* of the open block */
	__u8 state;	     /* of the open block, a profd_block_state */
	__u8 chosen;	     /* 1: its start was sent */
	__u8 from_before;    /* 1: it began before it was stamped */
	__u8 lost;	     /* 1 + the profd_loss of its start */
	__u32 reserved;
	__u64 unsampled; /* as in struct profd_block */
	__u64 unsampled_ns;
	__u64 unsent_id; /* an end without room: sent at the thread's next switch */
	__u64 unsent_end_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct profd_thread);
} profd_threads SEC(".maps");

PROFD_PER_CPU(profd_switch_counters);

/* Most threads that are not watched have no storage at all, which costs no call. */
static __always_inline struct profd_thread *profd_thread_of(struct task_struct *task)
{
	if (!task->bpf_storage)
		return NULL;
	return bpf_task_storage_get(&profd_threads, task, 0, 0);
}

/* The bits of task_struct.__state, and of the tracepoint's prev_state. */
#define PROFD_TASK_UNINTERRUPTIBLE 0x2
#define PROFD_TASK_STOPPED 0xc /* by a signal, or by a debugger */
/* An exit, a parked kernel thread, and a thread that has never run. */
#define PROFD_TASK_HAS_NO_BLOCK 0x8f0
#define PROFD_TASK_IDLE 0x402 /* a kernel thread without work */
#define PROFD_TASK_RTLOCK_WAIT 0x1000
#define PROFD_TASK_FREEZABLE 0x2000 /* only says that the thread may be frozen */
#define PROFD_TASK_FROZEN 0x8000

static __always_inline __u32 profd_block_state_of(bool preempt, __u32 state)
{
	if (preempt || !(state & ~PROFD_TASK_FREEZABLE))
		return PROFD_BLOCK_RUNNABLE;
	if (state & PROFD_TASK_HAS_NO_BLOCK)
		return PROFD_BLOCK_NONE;
	if ((state & PROFD_TASK_IDLE) == PROFD_TASK_IDLE)
		return PROFD_BLOCK_NONE;
	if (state & (PROFD_TASK_STOPPED | PROFD_TASK_FROZEN))
		return PROFD_BLOCK_STOPPED;
	if (state & (PROFD_TASK_UNINTERRUPTIBLE | PROFD_TASK_RTLOCK_WAIT))
		return PROFD_BLOCK_DISK;
	return PROFD_BLOCK_SLEEPING;
}

/* The slots that measure blocks of a state. */
static __always_inline __u32 profd_slots_for(const struct profd_filter *filter, __u32 state)
{
	if (state == PROFD_BLOCK_NONE)
		return 0;
	return state == PROFD_BLOCK_RUNNABLE ? filter->runnable : filter->blocked;
}

/* The sessions whose slots were theirs at a time. Without branches, as profd_count_match(). */
__noinline __u32 profd_begun_by(__u32 sessions, __u64 time_ns)
{
	struct profd_filter *filter = profd_filter_now();
	__u32 begun = 0;

	if (!filter)
		return 0;
	for (__u32 slot = 0; slot < PROFD_MAX_SESSIONS && sessions >> slot; slot++) {
		/* Both are far below 2^63. */
		__u64 before = (time_ns - filter->began_ns[slot]) >> 63;

		barrier_var(before);
		begun |= (__u32)(1 - before) << slot;
	}
	return sessions & begun;
}

/* Those of the slots that have the process as a target, by profd_match_target_of(). */
__noinline __u32 profd_targets_of(__u32 slots, __u32 tgid, __u64 start_ns, __u32 exec_id)
{
	__u32 matched = 0;

	for (__u32 slot = 0; slot < PROFD_MAX_SESSIONS && slots >> slot; slot++)
		matched |= profd_match_target_of(slots, slot, tgid, start_ns, exec_id);
	return matched;
}

static __always_inline void profd_watch(struct task_struct *task)
{
	struct profd_switch_counters *counters = profd_switch_counters_here();

	if (!counters || profd_thread_of(task))
		return;
	/* The hook may interrupt the iterator. */
	if (bpf_task_storage_get(&profd_threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE))
		__sync_fetch_and_add(&counters->threads_watched, 1);
	else
		__sync_fetch_and_add(&counters->threads_refused, 1);
}

/* Runs before the child's first instruction. The children of processes that are not followed are
 * watched too: they match no session. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(profd_switch_fork, struct task_struct *parent, struct task_struct *child)
{
	if (profd_thread_of(parent))
		profd_watch(child);
	return 0;
}

/* Whether a session may want blocks of a thread of the process, now or later: only targets by pid
 * never change to other processes. */
static __always_inline bool profd_is_wanted(const struct profd_filter *filter,
					    struct task_struct *leader)
{
	__u32 slots = (filter->blocked | filter->runnable) & filter->live;

	if (slots & (filter->all | filter->by_comm | filter->by_uid | filter->by_cgroup))
		return true;
	/* With a later exec_id, so that targets which wait for an exec are watched before it. */
	return profd_targets_of(slots & filter->by_process, leader->tgid, leader->start_boottime,
				(__u32)leader->self_exec_id + 1) != 0;
}

/* Watches the threads that exist. To be read until it adds none: a thread that is not watched yet
 * may start another behind the iterator. Each read, also one of profd's own process alone, learns
 * profd's identity, which the programs need before they are attached. Writes nothing. */
SEC("iter/task")
int profd_watch_threads(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct profd_filter *filter = profd_filter_now();

	if (!task || !filter)
		return 0;
	if (!ctx->meta->seq_num)
		profd_learn_own_identity();
	if (profd_is_wanted(filter, task->group_leader))
		profd_watch(task);
	return 0;
}

#endif
