/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Which files code runs from now: for tables that are made before the first sample needs them.
 *
 * An iterator over tasks that walks each one's mappings without its lock, as the tick does: a
 * process may hold that for as long as it likes. What it misses, or a process makes up by changing
 * its mappings meanwhile, costs a table that comes late, or one that nobody needs.
 */
#ifndef PROFD_VMAS_H
#define PROFD_VMAS_H

#include "bpf/file.h"
#include "bpf/process.h"
#include "bpf/vma.h"

/* The kernel's buffer holds 32 KiB for each task. */
#define PROFD_MAX_LISTED_FILES 500
#define PROFD_MAX_LISTED_LEAVES 128

/* Ticks have the per-CPU one under our feet. One reader at a time. */
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

static __always_inline void profd_list_file(struct profd_file_listing *listing, __u64 entry)
{
	struct profd_scratch *scratch = listing->scratch;
	struct vm_area_struct *vma = (void *)entry;

	if (!entry || !(BPF_CORE_READ(vma, vm_flags) & VM_EXEC) || !profd_read_vma(scratch, entry))
		return;
	struct profd_running_code code = {
		.start = scratch->found_start,
		.end = scratch->found_end,
		.file_offset = scratch->found_pgoff << PROFD_PAGE_SHIFT,
		.tgid = listing->tgid,
	};

	if (!scratch->found_file)
		return;
	code.on_fuse = profd_is_on_fuse((void *)scratch->found_file);
	profd_file_key_of((void *)scratch->found_file, &code.file);
	bpf_seq_write(listing->out, &code, sizeof(code));
	scratch->listing.told++;
}

/* All slots of one leaf, as in late.h. */
static long profd_list_leaf(__u32 index, struct profd_file_listing *listing)
{
	struct profd_scratch *scratch = listing->scratch;
	__u64 leaf = profd_maple_leaf(scratch, scratch->listing.next);
	__u64 last = scratch->node_last;

	if (leaf <= 1 || !profd_read_slots(scratch, leaf))
		return 1;
	for (__u32 i = 0; i < PROFD_MAPLE_SLOTS; i++) {
		__u64 pivot = i < PROFD_MAPLE_RANGE_PIVOTS ? scratch->pivots[i] : last;

		profd_list_file(listing, scratch->slots[i]);
		if (pivot >= last || !pivot)
			break;
	}
	scratch->listing.next = last + 1;
	return !scratch->listing.next ||
	       scratch->listing.told >= PROFD_MAX_LISTED_FILES - PROFD_MAPLE_SLOTS;
}

/* Writes a struct profd_running_code for each executable mapping of a file, of each process that
 * profd's PID namespace shows. */
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
