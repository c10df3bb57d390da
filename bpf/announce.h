/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The records of mappings and processes, which are sent when a CPU meets them for the first time,
 * that of a process also under a new comm. Frames refer to mappings by id.
 */
#ifndef PROFD_ANNOUNCE_H
#define PROFD_ANNOUNCE_H

#include "bpf/counters.h"
#include "bpf/cache.h"
#include "bpf/credit.h"
#include "bpf/filter.h"
#include "bpf/identity.h"
#include "bpf/names.h"
#include "bpf/ring.h"
#include "bpf/scratch.h"

static __always_inline __u32 profd_mapping_kind_of(struct profd_scratch *scratch)
{
	struct mm_struct *mm = (void *)scratch->mm;

	if (scratch->found_file)
		return PROFD_MAPPING_FILE;
	return scratch->found_start == (__u64)BPF_CORE_READ(mm, context.vdso)
		       ? PROFD_MAPPING_VDSO
		       : PROFD_MAPPING_ANONYMOUS;
}

/* Fills in the record of the VMA that was found last, except for its names and its size. */
static __always_inline void profd_describe_mapping(struct profd_scratch *scratch)
{
	struct profd_mapping *mapping = &scratch->mapping;
	__u64 hash;

	mapping->process = scratch->sample.process;
	mapping->start = scratch->found_start;
	mapping->end = scratch->found_end;
	mapping->kind = profd_mapping_kind_of(scratch);
	mapping->file_offset =
		mapping->kind == PROFD_MAPPING_FILE ? scratch->found_pgoff << PROFD_PAGE_SHIFT : 0;
	mapping->on_fuse = profd_is_on_fuse((void *)scratch->found_file);
	profd_file_key_of((void *)scratch->found_file, &mapping->file);

	hash = profd_hash_process(&mapping->process);
	hash = profd_hash_word(hash, mapping->start);
	hash = profd_hash_word(hash, mapping->end);
	hash = profd_hash_word(hash, mapping->file_offset);
	hash = profd_hash_word(hash, mapping->kind);
	mapping->id = profd_hash_end(profd_hash_file(hash, &mapping->file));
}

/*
 * What a mapping shows for the first time: its file, or that its process runs code in anonymous
 * memory, where a JIT compiler may have put it. 0: nothing of either.
 */
static __always_inline __u64 profd_first_shown(const struct profd_mapping *mapping)
{
	if (mapping->kind == PROFD_MAPPING_FILE)
		return profd_hash_end(profd_hash_file(profd_hash_key[0], &mapping->file));
	if (mapping->kind == PROFD_MAPPING_ANONYMOUS)
		return profd_hash_end(profd_hash_process(&mapping->process));
	return 0;
}

/*
 * Sends the described mapping. A new file wakes user space at once, and so does the first anonymous
 * code of a process: the process may exit in 20 ms.
 */
__noinline int profd_send_mapping(void)
{
	struct profd_scratch *scratch = profd_scratch_here();
	struct profd_counters *counters = profd_counters_here();
	struct profd_cache *cache = profd_cache_here();
	void *ring = profd_ring_here();

	if (!scratch || !counters || !cache || !ring)
		return -1;
	struct profd_mapping *mapping = &scratch->mapping;
	__u64 first = profd_first_shown(mapping);
	__u64 tag = profd_sent_tag(scratch, first);
	__u64 *place = &cache->sent.firsts[tag / 2 % PROFD_SENT_FIRSTS];
	bool wakes = first && *place != tag;

	/* The path's bytes are paid for when they are known. */
	if (!profd_pay(cache, counters, sizeof(*mapping) + PROFD_RECORD_COST)) {
		counters->mapping_records_limited++;
		return -1;
	}
	if (profd_uid_of_current() && profd_is_half_full(ring)) {
		counters->mapping_records_lost++;
		return -1;
	}
	mapping->name_bytes = 0;
	mapping->names_cut = 0;
	if (mapping->kind == PROFD_MAPPING_FILE)
		profd_write_path();
	__u64 bytes = sizeof(*mapping) + (mapping->name_bytes & (2 * PROFD_MAX_NAME_BYTES - 1));

	if (bytes > sizeof(*mapping) + PROFD_MAX_NAME_BYTES)
		return -1;
	(void)profd_pay(cache, counters, mapping->name_bytes);
	mapping->header.size = bytes;
	mapping->header.type = PROFD_RECORD_MAPPING;
	mapping->time_ns = scratch->sample.time_ns;
	if (bpf_ringbuf_output(ring, mapping, bytes,
			       wakes ? BPF_RB_FORCE_WAKEUP : profd_wake_when_half_full(ring))) {
		counters->mapping_records_lost++;
		return -1;
	}
	counters->mapping_records++;
	if (wakes)
		*place = tag;
	return 0;
}

/* Sends the described mapping unless this CPU has sent it. False if it could not be sent. */
static __always_inline bool profd_announce_mapping(struct profd_scratch *scratch,
						   struct profd_cache *cache)
{
	__u64 tag = profd_sent_tag(scratch, scratch->mapping.id);
	__u64 *place = &cache->sent.mappings[tag / 2 % PROFD_SENT_MAPPINGS];

	if (*place == tag)
		return true;
	if (profd_send_mapping())
		return false;
	*place = tag;
	return true;
}

/* The index of a mapping in the sample's list, to which it is added; PROFD_NO_MAPPING if the list
 * is full. Global, so that its loop is verified once. */
__noinline __u32 profd_list_mapping(__u64 id)
{
	struct profd_scratch *scratch = profd_scratch_here();

	if (!scratch)
		return PROFD_NO_MAPPING;
	__u32 count = scratch->mapping_count;

	for (__u32 i = 0; i < PROFD_MAX_STACK_MAPPINGS && i < count; i++)
		if (scratch->mapping_ids[i] == id)
			return i;
	if (count >= PROFD_MAX_STACK_MAPPINGS)
		return PROFD_NO_MAPPING;
	barrier_var(count); /* otherwise Linux 6.1's verifier misses the bound on count */
	scratch->mapping_ids[count & PROFD_FRAME_MAPPING_MASK] = id;
	scratch->mapping_count = count + 1;
	return count;
}

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

#define PROFD_MAX_PROCESS_BYTES (sizeof(struct profd_process) + PROFD_MAX_NAME_BYTES)

/* A tick announces its process first, when the credits have just grown, and what made one of them
 * negative cost less than a tick earns. So a process record is never over a credit. */
_Static_assert(PROFD_CREDIT_OF_TICK > PROFD_MAX_PROCESS_BYTES + PROFD_RECORD_COST,
	       "a tick earns more than any record costs");

/*
 * Sends the record of the current task's process, whose key and comm are filled in. A process can
 * change its comm at each tick, in a cgroup with a long path: so a user's records leave half of the
 * ring alone, and what they cost is missing for the user's mappings.
 */
__noinline int profd_send_process(void)
{
	struct profd_scratch *scratch = profd_scratch_here();
	struct profd_counters *counters = profd_counters_here();
	struct profd_cache *cache = profd_cache_here();
	void *ring = profd_ring_here();

	if (!scratch || !counters || !cache || !ring)
		return -1;
	struct profd_process *process = &scratch->process;

	if (profd_uid_of_current() && profd_is_half_full(ring)) {
		counters->process_records_lost++;
		return -1;
	}
	profd_describe_process(process, bpf_get_current_task_btf());
	__u64 bytes = sizeof(*process) + (process->cgroup_bytes & (2 * PROFD_MAX_NAME_BYTES - 1));

	if (bytes > PROFD_MAX_PROCESS_BYTES)
		return -1;
	(void)profd_pay(cache, counters, bytes + PROFD_RECORD_COST);
	process->header.size = bytes;
	process->time_ns = scratch->sample.time_ns;
	if (bpf_ringbuf_output(ring, process, bytes, BPF_RB_NO_WAKEUP)) {
		counters->process_records_lost++;
		return -1;
	}
	counters->process_records++;
	return 0;
}

/* Sends the process record unless this CPU has sent it with this comm. If it is not sent, the next
 * tick of the process tries again. */
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
