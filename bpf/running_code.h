/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The files whose code is running now, so that user space can make their tables before the first
 * sample needs them.
 *
 * An iterator over tasks walks the VMAs of each without taking the mmap lock, as the tick does: a
 * process may hold that lock for a long time. A process that changes its mappings meanwhile can
 * hide a file or add a false one; the cost is a table that is made later, or an unused one.
 */
#ifndef PROFD_RUNNING_CODE_H
#define PROFD_RUNNING_CODE_H

#include "bpf/identity.h"
#include "bpf/vma.h"

/* The kernel's buffer holds 32 KiB per task. */
#define PROFD_MAX_LISTED_FILES 500
#define PROFD_MAX_LISTED_LEAVES 128

/* Not the per-CPU scratch, which a tick may overwrite at any point. One reader at a time. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct profd_scratch);
} profd_listing_scratch SEC(".maps");

struct profd_file_listing {
	struct profd_scratch *scratch;
	struct seq_file *out;
	__u32 tgid;
};

static __always_inline bool profd_list_visited(void *context, __u64 entry)
{
	struct profd_file_listing *listing = context;
	struct profd_scratch *scratch = listing->scratch;
	struct vm_area_struct *vma = (void *)entry;

	if (!entry || !(BPF_CORE_READ(vma, vm_flags) & VM_EXEC) ||
	    !profd_read_vma(scratch, entry) || !scratch->found_file)
		return true;
	struct profd_running_code code = {
		.start = scratch->found_start,
		.end = scratch->found_end,
		.file_offset = scratch->found_pgoff << PROFD_PAGE_SHIFT,
		.tgid = listing->tgid,
		.on_fuse = profd_is_on_fuse((void *)scratch->found_file),
	};

	profd_file_key_of((void *)scratch->found_file, &code.file);
	bpf_seq_write(listing->out, &code, sizeof(code));
	scratch->listing.count++;
	return true;
}

static long profd_list_leaf(__u32 index, struct profd_file_listing *listing)
{
	struct profd_scratch *scratch = listing->scratch;

	return !profd_visit_leaf(scratch, profd_list_visited, listing) ||
	       scratch->listing.complete ||
	       scratch->listing.count >= PROFD_MAX_LISTED_FILES - PROFD_MAPLE_SLOTS;
}

/* Writes a struct profd_running_code for each executable mapping of a file, of each process that is
 * visible in profd's PID namespace. */
SEC("iter/task")
int profd_running(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	__u32 zero = 0;
	struct profd_scratch *scratch = bpf_map_lookup_elem(&profd_listing_scratch, &zero);

	if (!task || !scratch || task->pid != task->tgid)
		return 0;
	struct profd_file_listing listing = {
		.scratch = scratch,
		.out = ctx->meta->seq,
		.tgid = profd_tgid_of(task),
	};

	__builtin_memset(&scratch->listing, 0, sizeof(scratch->listing));
	scratch->mm = (__u64)BPF_CORE_READ(task, mm);
	if (scratch->mm && listing.tgid)
		bpf_loop(PROFD_MAX_LISTED_LEAVES, profd_list_leaf, &listing, 0);
	return 0;
}

#endif
