/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Programs that maintain the target map: they add the children of targets at fork and remove
 * processes that are freed. An iterator lists all processes. None of these programs uses the rings.
 *
 * A process has an entry for each session by pids whose target it is. So no two sessions, and
 * neither the programs nor user space, change one entry, and the entries of each user are counted
 * exactly, also where several CPUs add and remove them at a time. Unprivileged users together have
 * half of the map, and one of them an eighth: a child for whose entry there is no room is not
 * followed, and counted.
 */
#ifndef PROFD_TARGETS_H
#define PROFD_TARGETS_H

#include "bpf/counters.h"
#include "bpf/filter.h"
#include "bpf/identity.h"
#include "bpf/own_identity.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct profd_target_counts);
} profd_target_counts SEC(".maps");

static __always_inline bool profd_is_leader(struct task_struct *task)
{
	return task->pid == task->tgid;
}

static __always_inline void profd_add_to_counts(__u32 account, __s32 change)
{
	__u32 zero = 0;
	struct profd_target_counts *counts = bpf_map_lookup_elem(&profd_target_counts, &zero);

	if (!counts || account >= PROFD_TARGET_ACCOUNTS)
		return;
	__sync_fetch_and_add(&counts->of_account[account], change);
	if (account)
		__sync_fetch_and_add(&counts->of_users, change);
}

/* Whether the account may have what it has by now. */
static __always_inline bool profd_is_in_share(__u32 account)
{
	__u32 zero = 0;
	struct profd_target_counts *counts = bpf_map_lookup_elem(&profd_target_counts, &zero);

	if (!counts || account >= PROFD_TARGET_ACCOUNTS)
		return false;
	return !account || (counts->of_account[account] <= PROFD_MAX_TARGETS_OF_USER &&
			    counts->of_users <= PROFD_MAX_TARGETS_OF_USERS);
}

static __always_inline bool profd_add_target(const struct profd_target_key *key,
					     const struct profd_target *target)
{
	profd_add_to_counts(target->account, 1);
	if (profd_is_in_share(target->account) &&
	    !bpf_map_update_elem(&profd_targets, key, target, BPF_NOEXIST))
		return true;
	profd_add_to_counts(target->account, -1);
	return false;
}

static __always_inline void profd_remove_target(const struct profd_target_key *key, __u32 account)
{
	if (!bpf_map_delete_elem(&profd_targets, key))
		profd_add_to_counts(account, -1);
}

struct profd_forked {
	__u64 parent_start_ns;
	__u64 start_ns;
	__u32 parent_tgid;
	__u32 tgid;
	__u32 exec_id;
	__u32 reserved;
};

/* Adds a child to the slot if it is in `slots` and has the parent as a target. */
__noinline int profd_follow(const struct profd_forked *child, __u32 slots, __u32 slot)
{
	struct profd_filter *filter = profd_filter_now();
	struct profd_counters *counters = profd_counters_here();

	if (!child || !filter || !counters || slot >= PROFD_MAX_SESSIONS || !(slots >> slot & 1))
		return 0;
	struct profd_target_key key = {.tgid = child->parent_tgid, .slot = slot};
	struct profd_target *parent = bpf_map_lookup_elem(&profd_targets, &key);

	if (!parent || parent->start_ns != child->parent_start_ns)
		return 0;
	/* A child starts with its parent's exec_id. It still waits for an exec if the parent does.
	 */
	struct profd_target target = {
		.start_ns = child->start_ns,
		.exec_id = child->exec_id,
		.from_exec = parent->exec_id == child->exec_id ? parent->from_exec : 0,
		.account = filter->account[slot],
	};

	key.tgid = child->tgid;
	/* The task of an earlier process may be freed after its tgid was used again. */
	struct profd_target *earlier = bpf_map_lookup_elem(&profd_targets, &key);

	if (earlier)
		profd_remove_target(&key, earlier->account);
	if (!profd_add_target(&key, &target))
		counters->not_followed++;
	return 0;
}

/* Runs before the child's first instruction. Costs a fork one look-up for each session that follows
 * children, and nothing while there is none. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(profd_fork, struct task_struct *parent, struct task_struct *child)
{
	struct profd_filter *filter = profd_filter_now();
	__u32 slots = filter ? filter->follow & filter->live : 0;

	if (!slots || !profd_is_leader(child))
		return 0;
	struct profd_forked forked = {
		.parent_start_ns = parent->group_leader->start_boottime,
		.start_ns = child->start_boottime,
		.parent_tgid = parent->tgid,
		.tgid = child->tgid,
		.exec_id = (__u32)child->self_exec_id,
	};

	for (__u32 slot = 0; slot < PROFD_MAX_SESSIONS && slots >> slot; slot++)
		profd_follow(&forked, slots, slot);
	return 0;
}

/* The entry of that process, if its slot is in `slots`. */
static __always_inline struct profd_target *profd_find_target(const struct profd_target_key *key,
							      __u32 slots, __u64 start_ns)
{
	if (!(slots >> key->slot & 1))
		return NULL;
	struct profd_target *target = bpf_map_lookup_elem(&profd_targets, key);

	return target && target->start_ns == start_ns ? target : NULL;
}

__noinline int profd_end_target(__u32 slots, __u32 slot, __u32 tgid, __u64 start_ns)
{
	struct profd_target_key key = {.tgid = tgid, .slot = slot};
	struct profd_target *target = profd_find_target(&key, slots, start_ns);

	if (target)
		target->ended_ns = bpf_ktime_get_ns();
	return 0;
}

/* Marks the target whose last thread exits. Its parent may never reap it. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(profd_exit, struct task_struct *task)
{
	struct profd_filter *filter = profd_filter_now();

	if (!filter || task->signal->live.counter)
		return 0;
	__u32 slots = filter->by_process;

	for (__u32 slot = 0; slot < PROFD_MAX_SESSIONS && slots >> slot; slot++)
		profd_end_target(slots, slot, task->tgid, task->group_leader->start_boottime);
	return 0;
}

__noinline int profd_free_target(__u32 slots, __u32 slot, __u32 tgid, __u64 start_ns)
{
	struct profd_target_key key = {.tgid = tgid, .slot = slot};
	struct profd_target *target = profd_find_target(&key, slots, start_ns);

	if (target)
		profd_remove_target(&key, target->account);
	return 0;
}

/* Removes a target when its task is freed. If a thread other than the leader called exec, the old
 * leader has a pid other than the tgid when it is freed. Now and then a kernel does not run it for
 * some tasks: user space removes those that ended a minute ago. */
SEC("tp_btf/sched_process_free")
int BPF_PROG(profd_free, struct task_struct *task)
{
	struct profd_filter *filter = profd_filter_now();

	if (!filter || !profd_is_leader(task))
		return 0;
	__u32 slots = filter->by_process;

	for (__u32 slot = 0; slot < PROFD_MAX_SESSIONS && slots >> slot; slot++)
		profd_free_target(slots, slot, task->tgid, task->start_boottime);
	return 0;
}

/* Writes a struct profd_task for each process in profd's PID namespace: the iterator visits no
 * others. */
SEC("iter/task")
int profd_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;

	if (!task)
		return 0;
	if (!ctx->meta->seq_num)
		profd_learn_own_identity();
	if (!profd_is_leader(task))
		return 0;
	struct profd_task out = {
		.start_ns = task->start_boottime,
		.global_tgid = task->tgid,
		.tgid = profd_tgid_of(task),
		.parent_global_tgid = task->real_parent->tgid,
		.exec_id = (__u32)task->self_exec_id,
	};

	bpf_seq_write(ctx->meta->seq, &out, sizeof(out));
	return 0;
}

#endif
