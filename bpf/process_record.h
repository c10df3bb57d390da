/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Process records: sent when a CPU samples a process image for the first time, or under a new comm.
 */
#ifndef PROFD_PROCESS_RECORD_H
#define PROFD_PROCESS_RECORD_H

#include "bpf/counters.h"
#include "bpf/file.h"
#include "bpf/filter.h"
#include "bpf/hash.h"
#include "bpf/cache.h"
#include "bpf/names.h"
#include "bpf/process.h"
#include "bpf/ring.h"
#include "bpf/scratch.h"

static __always_inline void profd_describe_process(struct profd_process *process,
						   struct task_struct *task)
{
	struct task_struct *leader = task->group_leader;
	struct mm_struct *mm = BPF_CORE_READ(task, mm);
	struct kernfs_node *cgroup = BPF_CORE_READ(leader, cgroups, dfl_cgrp, kn);

	process->header.type = PROFD_RECORD_PROCESS;
	process->uid = leader->real_cred->uid.val;
	process->parent_tgid = profd_tgid_of(leader->real_parent->group_leader);
	process->kernel_thread = !!(leader->flags & PF_KTHREAD);
	profd_file_key_of(mm ? BPF_CORE_READ(mm, exe_file) : NULL, &process->executable);
	process->cgroup_id = BPF_CORE_READ(cgroup, id);
	profd_write_cgroup((__u64)cgroup);
}

/* Sends the record of the current task's process, whose key and comm are filled in. */
__noinline int profd_send_process(void)
{
	struct profd_scratch *scratch = profd_scratch_here();
	struct profd_counters *counters = profd_counters_here();
	void *ring = profd_ring_here();

	if (!scratch || !counters || !ring)
		return -1;
	struct profd_process *process = &scratch->process;

	profd_describe_process(process, bpf_get_current_task_btf());
	__u64 bytes = sizeof(*process) + (process->cgroup_bytes & (2 * PROFD_MAX_NAME_BYTES - 1));

	if (bytes > sizeof(*process) + PROFD_MAX_NAME_BYTES)
		return -1;
	process->header.size = bytes;
	process->time_ns = scratch->sample.time_ns;
	if (bpf_ringbuf_output(ring, process, bytes, BPF_RB_NO_WAKEUP)) {
		counters->process_records_lost++;
		return -1;
	}
	counters->process_records++;
	return 0;
}

/* Sends the process record unless this CPU has sent it with this comm. */
static __always_inline void profd_announce_process(struct profd_scratch *scratch,
						   struct profd_cache *cache,
						   const struct profd_comm *comm)
{
	const __u64 *name = (const __u64 *)comm->bytes;
	__u64 hash = profd_hash_process(&scratch->sample.process);

	hash = profd_hash_end(profd_hash_word(profd_hash_word(hash, name[0]), name[1]));
	hash = profd_sent_tag(scratch, hash);

	__u64 *place = &cache->sent.processes[hash / 2 % PROFD_SENT_PROCESSES];

	if (*place == hash)
		return;
	scratch->process.process = scratch->sample.process;
	__builtin_memcpy(scratch->process.comm, comm, sizeof(*comm));
	if (!profd_send_process())
		*place = hash;
}

#endif
