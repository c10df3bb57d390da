/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Finds the mapping of an address by walking the kernel's VMA tree, the maple tree mm->mm_mt,
 * without its locks.
 *
 * A node pointer has the node's type in bits 3 to 6. Slot i of a node covers the addresses above
 * pivot i-1 up to pivot i; a pivot of 0 behind the first ends the node early, and the slot there
 * extends to the node's own last address. A reader that races with a change can meet a freed node:
 * a VMA is used only if it refers to this mm and contains the address.
 */
#ifndef PROFD_VMA_H
#define PROFD_VMA_H

#include "bpf/scratch.h"

/* 5 levels hold 65,530 mappings, the default limit of a process. */
#define PROFD_MAPLE_MAX_DEPTH 8
#define PROFD_MAPLE_LEAF_64 1
#define PROFD_MAPLE_ARANGE_64 3
#define PROFD_MAPLE_RANGE_PIVOTS 15
#define PROFD_MAPLE_ARANGE_PIVOTS 9

static __always_inline __u32 profd_maple_type(__u64 node)
{
	return node >> 3 & 15;
}

/* Only the root can be something else: an empty tree, or an entry for index 0 alone. */
static __always_inline bool profd_is_maple_root_node(__u64 root)
{
	return (root & 3) == 2 && root > PROFD_PAGE_BYTES;
}

/* Reads 15 pivots: all of a range_64 or leaf_64 node, and more than an arange_64 node has. */
static __always_inline bool profd_read_pivots(struct profd_scratch *scratch, __u64 node)
{
	__u64 pivots = (node & ~255ULL) + bpf_core_field_offset(struct maple_range_64, pivot);

	return !bpf_probe_read_kernel(scratch->pivots, PROFD_MAPLE_RANGE_PIVOTS * 8,
				      (void *)pivots);
}

/* The slot of a node that covers an address, or 0. Sets node_last to the last address that the slot
 * covers. */
static __always_inline __u64 profd_maple_slot(struct profd_scratch *scratch, __u64 node,
					      __u64 address)
{
	bool wide = profd_maple_type(node) == PROFD_MAPLE_ARANGE_64;
	__u64 slots =
		(node & ~255ULL) + (wide ? bpf_core_field_offset(struct maple_arange_64, slot)
					 : bpf_core_field_offset(struct maple_range_64, slot));
	__u32 count = wide ? PROFD_MAPLE_ARANGE_PIVOTS : PROFD_MAPLE_RANGE_PIVOTS;
	__u64 entry = 0;
	__u32 i;

	if (!profd_read_pivots(scratch, node))
		return 0;
	for (i = 0; i < PROFD_MAPLE_RANGE_PIVOTS; i++) {
		__u64 pivot = scratch->pivots[i];

		if (i == count || (i && !pivot))
			break;
		if (pivot >= address) {
			scratch->node_last = pivot;
			break;
		}
	}
	bpf_probe_read_kernel(&entry, sizeof(entry), (void *)(slots + 8 * i));
	return entry;
}

/* The leaf of scratch->mm's tree that covers an address, with its last address in node_last.
 * 0: the tree changed during the walk. 1: the tree is empty. */
static __always_inline __u64 profd_maple_leaf(struct profd_scratch *scratch, __u64 address)
{
	struct mm_struct *mm = (void *)scratch->mm;
	__u64 node = (__u64)BPF_CORE_READ(mm, mm_mt.ma_root);

	scratch->node_last = ~0ULL;
	if (!profd_is_maple_root_node(node))
		return 1;
	for (int depth = 1; depth < PROFD_MAPLE_MAX_DEPTH; depth++) {
		if (!node || profd_maple_type(node) <= PROFD_MAPLE_LEAF_64)
			break;
		node = profd_maple_slot(scratch, node, address);
	}
	return node;
}

/* Reads a whole leaf. Slots behind its last pivot hold other data. */
static __always_inline bool profd_read_slots(struct profd_scratch *scratch, __u64 leaf)
{
	__u64 slots = (leaf & ~255ULL) + bpf_core_field_offset(struct maple_range_64, slot);

	return profd_read_pivots(scratch, leaf) &&
	       !bpf_probe_read_kernel(scratch->slots, sizeof(scratch->slots), (void *)slots);
}

/* Fills in found_*. False if the entry is not a VMA of this mm. */
static __always_inline bool profd_read_vma(struct profd_scratch *scratch, __u64 entry)
{
	struct vm_area_struct *vma = (void *)entry;

	scratch->found_start = BPF_CORE_READ(vma, vm_start);
	scratch->found_end = BPF_CORE_READ(vma, vm_end);
	if (scratch->found_start >= scratch->found_end ||
	    (__u64)BPF_CORE_READ(vma, vm_mm) != scratch->mm)
		return false;
	scratch->found_flags = BPF_CORE_READ(vma, vm_flags);
	scratch->found_pgoff = BPF_CORE_READ(vma, vm_pgoff);
	scratch->found_file = (__u64)BPF_CORE_READ(vma, vm_file);
	return true;
}

/*
 * Calls `visit` for each slot of the leaf at listing.next and moves listing.next behind it. False
 * if there is no such leaf, or a visit returned false. Sets listing.complete at the last leaf.
 */
static __always_inline bool profd_visit_leaf(struct profd_scratch *scratch,
					     bool (*visit)(void *context, __u64 entry),
					     void *context)
{
	struct profd_listing *listing = &scratch->listing;
	__u64 leaf = profd_maple_leaf(scratch, listing->next);
	__u64 last = scratch->node_last;

	if (leaf <= 1 || !profd_read_slots(scratch, leaf))
		return false;
	for (__u32 i = 0; i < PROFD_MAPLE_SLOTS; i++) {
		__u64 pivot = i < PROFD_MAPLE_RANGE_PIVOTS ? scratch->pivots[i] : last;

		if (!visit(context, scratch->slots[i]))
			return false;
		if (pivot >= last || !pivot)
			break;
	}
	listing->next = last + 1;
	listing->complete = !listing->next;
	return true;
}

/* Finds the VMA of pc in the tree of scratch->mm: fills in found_* and returns 0, or returns a
 * profd_user_end. Global, so that it is verified once. */
__noinline int profd_find_vma(__u64 pc)
{
	struct profd_scratch *scratch = profd_scratch_here();

	if (!scratch)
		return PROFD_END_MAPPING_RACE;
	__u64 leaf = profd_maple_leaf(scratch, pc);

	if (leaf <= 1)
		return leaf ? PROFD_END_PC_UNMAPPED : PROFD_END_MAPPING_RACE;
	__u64 entry = profd_maple_slot(scratch, leaf, pc);

	if (!entry)
		return PROFD_END_PC_UNMAPPED;
	if (!profd_read_vma(scratch, entry) || pc < scratch->found_start ||
	    pc >= scratch->found_end)
		return PROFD_END_MAPPING_RACE;
	return 0;
}

#endif
