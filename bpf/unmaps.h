/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Reports to user space when a process unmaps memory that holds its JIT code: then the symbols of
 * that code are no longer valid.
 *
 * The report has the time of the call's start, so code that is later placed there is newer. A call
 * that fails is reported too. The programs are attached only while a process is watched, and cost
 * the calls of other processes one map look-up.
 */
#ifndef PROFD_UNMAPS_H
#define PROFD_UNMAPS_H

#include "bpf/counters.h"
#include "bpf/identity.h"
#include "bpf/ring.h"

#define PROFD_NR_MMAP 9
#define PROFD_NR_MUNMAP 11
#define PROFD_MMAP_REPLACES (MAP_FIXED | MAP_ANONYMOUS)

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, PROFD_MAX_WATCHED);
	__type(key, struct profd_process_key);
	__type(value, struct profd_watched);
} profd_watched SEC(".maps");

static __always_inline bool profd_overlaps_watched(const struct profd_watched *watched, __u64 start,
						   __u64 end)
{
	for (int i = 0; i < PROFD_WATCHED_SPANS; i++)
		if (start < watched->spans[i].end && watched->spans[i].start < end)
			return true;
	return false;
}

/* Limits the reports of a process per second. Racing threads may send a few more. */
static __always_inline bool profd_is_in_rate(struct profd_watched *watched, __u64 now)
{
	if (now - watched->second_ns >= 1000000000) {
		watched->second_ns = now;
		watched->reported = 0;
	}
	return watched->reported++ < PROFD_UNMAPS_PER_SECOND;
}

/* Uses at most a quarter of the ring: the rest is for samples. Wakes user space before that. */
static __always_inline bool profd_send_unmap(const struct profd_unmap *unmap)
{
	void *ring = profd_ring_here();

	if (!ring)
		return false;
	__u64 used = bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA);
	__u64 size = bpf_ringbuf_query(ring, BPF_RB_RING_SIZE);

	return used < size / 4 &&
	       !bpf_ringbuf_output(ring, (void *)unmap, sizeof(*unmap),
				   used > size / 8 ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
}

/* Both calls act on whole pages, including a last page that is given in part. */
static __always_inline void profd_report_unmap(__u64 start, __u64 bytes)
{
	struct profd_unmap unmap = {
		.header = {.size = sizeof(unmap), .type = PROFD_RECORD_UNMAP},
		.start = start,
		.end = (start + bytes + PROFD_PAGE_BYTES - 1) & -(__u64)PROFD_PAGE_BYTES,
	};

	if (!profd_identify(bpf_get_current_task_btf()->group_leader, &unmap.process))
		return;
	struct profd_watched *watched = bpf_map_lookup_elem(&profd_watched, &unmap.process);
	struct profd_counters *counters = profd_counters_here();

	if (!watched || !counters || unmap.end <= start ||
	    !profd_overlaps_watched(watched, start, unmap.end))
		return;
	unmap.time_ns = bpf_ktime_get_ns();
	if (profd_is_in_rate(watched, unmap.time_ns) && profd_send_unmap(&unmap))
		counters->unmap_records++;
	else
		counters->unmap_records_lost++;
}

/* Runs at the start of a system call. Runtimes release a part of the memory that they reserved by
 * an mmap of new memory over it. */
static __always_inline void profd_report_call(struct pt_regs___kernel *regs)
{
	if (regs->orig_ax == PROFD_NR_MUNMAP ||
	    (regs->orig_ax == PROFD_NR_MMAP &&
	     (regs->r10 & PROFD_MMAP_REPLACES) == PROFD_MMAP_REPLACES))
		profd_report_unmap(regs->di, regs->si);
}

/* Either these two are loaded, or, if the kernel rejects them, profd_mmap_lock (class Programs). */
SEC("?fentry/__x64_sys_munmap")
int BPF_PROG(profd_munmap_call, struct pt_regs___kernel *regs)
{
	profd_report_call(regs);
	return 0;
}

SEC("?fentry/__x64_sys_mmap")
int BPF_PROG(profd_mmap_call, struct pt_regs___kernel *regs)
{
	profd_report_call(regs);
	return 0;
}

/* Both calls reach this tracepoint first. It is the second choice, because other calls, and page
 * faults before Linux 6.4, reach it too, and older kernels format a cgroup's path each time. */
SEC("?tp_btf/mmap_lock_start_locking")
int BPF_PROG(profd_mmap_lock, struct mm_struct *mm)
{
	profd_report_call((void *)bpf_task_pt_regs(bpf_get_current_task_btf()));
	return 0;
}

#endif
