/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The identity of a process, with its pids in profd's own PID namespace. */
#ifndef PROFD_PROCESS_H
#define PROFD_PROCESS_H

#include "bpf/kernel_types.h"
#include "bpf/profd_abi.h"

/* profd's PID namespace. profd reads the iterator profd_tasks, which sets it, before it opens the
 * first event. */
struct {
	__u32 level;
	__u32 inum;
} profd_namespace;

/* The number of a struct pid in profd's namespace; 0 if it is not visible there. */
static __always_inline __u32 profd_number_of(struct pid *pid)
{
	struct upid upid;

	if (!pid || BPF_CORE_READ(pid, level) < profd_namespace.level)
		return 0;
	void *numbers = (void *)pid + bpf_core_field_offset(struct pid, numbers);

	if (bpf_probe_read_kernel(&upid, sizeof(upid),
				  numbers + profd_namespace.level * sizeof(upid)))
		return 0;
	return BPF_CORE_READ(upid.ns, ns.inum) == profd_namespace.inum ? upid.nr : 0;
}

/* In the initial namespace every task is visible by its global number, even a task that was
 * released and has no struct pid any more. */
static __always_inline __u32 profd_tgid_of(struct task_struct *leader)
{
	return profd_namespace.level ? profd_number_of(BPF_CORE_READ(leader, thread_pid))
				     : leader->tgid;
}

static __always_inline __u32 profd_tid_of(struct task_struct *task)
{
	return profd_namespace.level ? profd_number_of(BPF_CORE_READ(task, thread_pid)) : task->pid;
}

/* False if the process is not visible in profd's namespace. */
static __always_inline bool profd_identify(struct task_struct *leader,
					   struct profd_process_key *process)
{
	process->start_ns = leader->start_boottime;
	process->exec_id = (__u32)leader->self_exec_id;
	process->tgid = profd_tgid_of(leader);
	return process->tgid != 0;
}

#endif
