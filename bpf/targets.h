/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Programs that maintain the target map: they add the children of targets at fork and remove
 * processes that are freed. An iterator lists all processes. None of these programs uses the rings.
 */
#ifndef PROFD_TARGETS_H
#define PROFD_TARGETS_H

#include "bpf/counters.h"
#include "bpf/filter.h"
#include "bpf/names.h"
#include "bpf/identity.h"

static __always_inline bool profd_is_leader(struct task_struct *task)
{
	return task->pid == task->tgid;
}

/* The entry of a forked child: the sessions that follow children, and still wait for an exec if the
 * parent does. */
static __always_inline struct profd_target profd_child_target(const struct profd_target *parent,
							      struct task_struct *child, __u32 live)
{
	struct profd_target target = {
		.start_ns = child->start_boottime,
		.sessions = parent->follow & live,
		.follow = parent->follow & live,
		.exec_id = (__u32)child->self_exec_id,
	};

	/* A child starts with its parent's exec_id. */
	if (target.exec_id == parent->exec_id)
		target.from_exec = parent->from_exec & target.sessions;
	return target;
}

/* Runs before the child's first instruction. Attached only while a session follows children. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(profd_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 parent_tgid = parent->tgid, child_tgid = child->tgid;

	if (!profd_is_leader(child))
		return 0;
	struct profd_target *known = bpf_map_lookup_elem(&profd_targets, &parent_tgid);
	struct profd_filter *filter = profd_filter_now();
	struct profd_counters *counters = profd_counters_here();

	if (!known || !filter || !counters ||
	    known->start_ns != parent->group_leader->start_boottime)
		return 0;
	struct profd_target target = profd_child_target(known, child, filter->live);

	if (target.sessions && bpf_map_update_elem(&profd_targets, &child_tgid, &target, BPF_ANY))
		counters->not_followed++;
	return 0;
}

/* Marks the target whose last thread exits. Its parent may never reap it. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(profd_exit, struct task_struct *task)
{
	__u32 tgid = task->tgid;
	struct profd_target *target = bpf_map_lookup_elem(&profd_targets, &tgid);

	if (target && target->start_ns == task->group_leader->start_boottime &&
	    !task->signal->live.counter)
		target->ended = 1;
	return 0;
}

/* Removes a target when its task is freed. If a thread other than the leader called exec, the old
 * leader has a pid other than the tgid when it is freed. */
SEC("tp_btf/sched_process_free")
int BPF_PROG(profd_free, struct task_struct *task)
{
	__u32 tgid = task->tgid;

	if (!profd_is_leader(task))
		return 0;
	struct profd_target *target = bpf_map_lookup_elem(&profd_targets, &tgid);

	if (target && target->start_ns == task->start_boottime)
		bpf_map_delete_elem(&profd_targets, &tgid);
	return 0;
}

/* Called in the context of the process that reads the iterator: profd. */
static __always_inline void profd_learn_own_identity(void)
{
	struct task_struct *self = bpf_get_current_task_btf();
	struct pid *pid = BPF_CORE_READ(self, thread_pid);
	__u32 level = BPF_CORE_READ(pid, level);
	void *numbers = (void *)pid + bpf_core_field_offset(struct pid, numbers);
	struct upid upid;

	if (bpf_probe_read_kernel(&upid, sizeof(upid), numbers + level * sizeof(upid)))
		return;
	profd_namespace.inum = BPF_CORE_READ(upid.ns, ns.inum);
	profd_namespace.level = level;
	profd_learn_root(self);
	profd_learn_user_namespace(self);
}

/* Writes a struct profd_task for each process in profd's PID namespace: the iterator visits no
 * others. */
SEC("iter/task")
int profd_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;

	if (!task || !profd_is_leader(task))
		return 0;
	profd_learn_own_identity();
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
