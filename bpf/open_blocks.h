/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The list of the blocks that are open, for the start and the end of a session.
 *
 * A session that begins gets the blocks of its threads that are open then, also those of threads
 * that nobody measured when they went to sleep. Except by cgroup: the kernel answers only for the
 * current task whether it is in one, so there a thread counts from its next block on.
 */
#ifndef PROFD_OPEN_BLOCKS_H
#define PROFD_OPEN_BLOCKS_H

#include "bpf/blocks.h"
#include "bpf/filter.h"
#include "bpf/threads.h"

/* Not the per-CPU state, which a switch may overwrite at any point. One reader at a time. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct profd_whole);
} profd_listed_block SEC(".maps");

/* Those of the sessions that sample a task, whichever runs now, as far as that can be known. */
static __always_inline __u32 profd_match_task(const struct profd_filter *filter, __u32 wanted,
					      struct task_struct *leader,
					      const struct profd_owner *owner)
{
	struct profd_comm comm = {};

	bpf_probe_read_kernel_str(&comm, sizeof(comm), leader->comm);
	wanted = profd_permitted(filter, wanted, owner);
	return (wanted & filter->all) |
	       profd_targets_of(wanted & filter->by_process, leader->tgid, leader->start_boottime,
				(__u32)leader->self_exec_id) |
	       (profd_match_comm(&comm) & wanted & filter->by_comm) |
	       (profd_match_uid(leader) & wanted & filter->by_uid);
}

/* The state of a task that sleeps now; PROFD_BLOCK_NONE: it runs, or waits for a CPU. */
static __always_inline __u32 profd_sleeper_state(struct task_struct *task)
{
	__u32 state = *(volatile unsigned int *)&task->__state;

	if (!state || *(volatile int *)&task->on_cpu)
		return PROFD_BLOCK_NONE;
	return profd_block_state_of(false, state);
}

/*
 * Begins a block of a thread that sleeps and has none, for the sessions that sample it. A wakeup
 * clears the state first, and the switch comes later: if the thread still sleeps after the stamp,
 * its switch sees the stamp. Otherwise the stamp is taken back.
 */
static __always_inline void profd_stamp_sleeper(struct profd_thread *thread,
						struct task_struct *task, __u32 sessions,
						__u32 state, __u64 now)
{
	/* A thread that has fallen asleep since it was looked at has a stamp of its switch, which
	 * comes before on_cpu is cleared: its block must not be written over. */
	if (profd_sleeper_state(task) != state || *(volatile __u64 *)&thread->start_ns)
		return;
	thread->id = 0;
	thread->listed_ns = now;
	thread->ran_ns = task->se.sum_exec_runtime;
	thread->open_sessions = sessions;
	thread->state = state;
	thread->chosen = 0;
	thread->from_before = 1;
	thread->lost = 0;
	(void)__sync_val_compare_and_swap(&thread->start_ns, 0, now);
	if (profd_sleeper_state(task) == PROFD_BLOCK_NONE)
		(void)__sync_val_compare_and_swap(&thread->start_ns, now, 0);
}

/* The id of an open block, for its end: a new one if none was sent. 0: the block has ended, and did
 * not see the new id. One that ended and did is left to the list (profd_id_of_ended()). */
static __always_inline __u64 profd_id_of_open(struct profd_thread *thread, __u64 start_ns,
					      __u64 now)
{
	struct profd_switch_state *here = profd_switch_state_here();
	__u64 drawn = here ? profd_draw_id(here, now) : 0;
	__u64 before = __sync_val_compare_and_swap(&thread->id, 0, drawn);

	if (*(volatile __u64 *)&thread->start_ns != start_ns) {
		if (before || __sync_val_compare_and_swap(&thread->id, drawn, 0) == drawn)
			return 0;
		return drawn;
	}
	if (before)
		return before;
	thread->lost = 0; /* what had no room is in the list */
	return drawn;
}

/* The sessions of an open block: those that had it, and those that began since and sample the
 * thread, which have it from now on. */
static __always_inline __u32 profd_list_sessions(struct profd_thread *thread, __u32 matched,
						 __u64 now)
{
	__u32 sessions = profd_begun_by(thread->open_sessions, thread->listed_ns) | matched;

	thread->open_sessions = sessions;
	thread->listed_ns = now;
	return sessions;
}

/*
 * Writes a struct profd_whole_block for each open block that counts for a session, also one that
 * has just ended, and gives it an id if it has none: so it ends by a profd_block_end.
 */
SEC("iter/task")
int profd_open_blocks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct profd_filter *filter = profd_filter_now();
	__u32 zero = 0;
	struct profd_whole *whole = bpf_map_lookup_elem(&profd_listed_block, &zero);

	if (!task || !filter || !whole)
		return 0;
	struct profd_thread *thread = profd_thread_of(task);

	if (!thread)
		return 0;
	__u64 start_ns = *(volatile __u64 *)&thread->start_ns;
	__u64 now = bpf_ktime_get_ns();
	__u32 state = start_ns ? thread->state : profd_sleeper_state(task);

	if (state == PROFD_BLOCK_NONE)
		return 0;
	profd_owner_of(task, &whole->block.owner);
	__u32 matched = profd_match_task(filter, profd_slots_for(filter, state) & filter->live,
					 task->group_leader, &whole->block.owner);

	if (!start_ns) {
		if (!matched)
			return 0;
		profd_stamp_sleeper(thread, task, matched, state, now);
		start_ns = *(volatile __u64 *)&thread->start_ns;
	}
	/* The clocks of two CPUs can be some nanoseconds apart, and a block may have begun since.
	 */
	if (now < start_ns)
		now = start_ns;
	if (!start_ns || !profd_describe_block(whole, thread, task, start_ns, now))
		return 0;
	__u32 sessions = profd_list_sessions(thread, matched, now);

	if (!sessions)
		return 0;
	whole->block.flags = PROFD_BLOCK_OPEN |
			     (thread->from_before ? PROFD_BLOCK_FROM_BEFORE : 0) |
			     (thread->chosen ? PROFD_BLOCK_WAS_CHOSEN : 0);
	whole->block.id = profd_id_of_open(thread, start_ns, now);
	whole->block.sessions = sessions;
	if (!whole->block.id)
		return 0;
	__u64 bytes = profd_size_whole(whole);

	bpf_seq_write(ctx->meta->seq, whole, bytes);
	return 0;
}

#endif
