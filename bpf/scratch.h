/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Memory of one tick, and what a CPU remembers between ticks. Per-CPU values hold 32 KiB at most.
 * Ticks do not nest on a CPU: the kernel skips a perf event's program while another one runs there
 * (bpf_prog_active).
 */
#ifndef PROFD_SCRATCH_H
#define PROFD_SCRATCH_H

#include "bpf/kernel_types.h"
#include "bpf/profd_abi.h"

#define PROFD_MAX_WORDS (PROFD_MAX_KERNEL_FRAMES + PROFD_MAX_USER_FRAMES + PROFD_MAX_STACK_MAPPINGS)
#define PROFD_WINDOW_BYTES 1024
#define PROFD_COMPONENT_BYTES 256 /* NAME_MAX and its NUL */

/* An executable mapping of the current stack. The place behind the last is for stacks that meet
 * more. */
struct profd_vma {
	__u64 start;
	__u64 bytes;
	__u64 id;
};

struct profd_scratch {
	/* The record: what follows its struct is written straight behind it. */
	struct profd_sample sample;
	__u64 words[PROFD_MAX_WORDS];

	/* Room for one component behind the limit, so that a bound on the offset is enough for the
	 * verifier. */
	struct profd_mapping mapping;
	char names[PROFD_MAX_NAME_BYTES + PROFD_COMPONENT_BYTES];
	struct profd_process process;
	char cgroup[PROFD_MAX_NAME_BYTES + PROFD_COMPONENT_BYTES];

	__u64 mm; /* of the current task, as a number */
	__u32 vma_count;
	__u32 announcements; /* of the filter, at this tick */
	struct profd_vma vmas[PROFD_MAX_STACK_MAPPINGS + 1];

	/* The VMA that was found last, as it stands in the kernel. */
	__u64 found_start;
	__u64 found_end;
	__u64 found_flags;
	__u64 found_pgoff;
	__u64 found_file;

	__u64 pivots[16];

	/* Stack memory. Twice the window: a short read goes to its upper end (see unwind.h). */
	__u64 window[2 * PROFD_WINDOW_BYTES / 8];
};

/*
 * Direct-mapped caches of hashes: a record that is remembered went out on this CPU. User space may
 * let go of what it was told when a session ends, so it raises filter.announcements when one
 * starts: then all is told again.
 */
#define PROFD_SENT_MAPPINGS 1024
#define PROFD_SENT_PROCESSES 512
#define PROFD_SENT_FILES 512

struct profd_sent {
	__u64 mappings[PROFD_SENT_MAPPINGS];
	__u64 processes[PROFD_SENT_PROCESSES];
	__u64 files[PROFD_SENT_FILES];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct profd_scratch);
} profd_scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct profd_sent);
} profd_sent SEC(".maps");

_Static_assert(sizeof(struct profd_scratch) <= 32768, "a per-CPU value holds 32 KiB");
_Static_assert(sizeof(struct profd_sent) <= 32768, "a per-CPU value holds 32 KiB");

static __always_inline struct profd_scratch *profd_scratch_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&profd_scratch, &zero);
}

static __always_inline struct profd_sent *profd_sent_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&profd_sent, &zero);
}

/* What the caches hold of a hash. Never 0. */
static __always_inline __u64 profd_sent_tag(const struct profd_scratch *scratch, __u64 hash)
{
	return (hash + scratch->announcements * 0x9e3779b97f4a7c15ULL) | 1;
}

#endif
