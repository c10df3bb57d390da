/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Which mapping holds an address: a walk of the kernel's own VMA tree, the maple tree mm->mm_mt,
 * without its locks.
 *
 * Node pointers carry their type in bits 3 to 6. A node's slot i holds what lies above pivot i-1
 * and up to pivot i; a pivot of 0 behind the first ends the node early, and the slot there goes up
 * to the node's own last address. A reader that races with a change can meet a node that was let
 * go: what it finds is believed only when the VMA names this mm and holds the address.
 */
#ifndef PROFD_VMA_H
#define PROFD_VMA_H

#include "bpf/scratch.h"

/* 5 levels hold the 65,530 mappings that a process may have by default. */
#define PROFD_MAPLE_MAX_DEPTH 8
#define PROFD_MAPLE_LEAF_64 1
#define PROFD_MAPLE_ARANGE_64 3
#define PROFD_MAPLE_RANGE_PIVOTS 15
#define PROFD_MAPLE_ARANGE_PIVOTS 9

static __always_inline __u32 profd_maple_type(__u64 node)
{
	return node >> 3 & 15;
}

/* Only the root may be something else: an empty tree, or an entry for index 0 alone. */
static __always_inline bool profd_is_maple_root_node(__u64 root)
{
	return (root & 3) == 2 && root > PROFD_PAGE_BYTES;
}

/* Reads the pivots of a node of range_64 or leaf_64, or as many of an arange_64's and more. */
static __always_inline bool profd_read_pivots(struct profd_scratch *scratch, __u64 node)
{
	__u64 pivots = (node & ~255ULL) + bpf_core_field_offset(struct maple_range_64, pivot);

	return !bpf_probe_read_kernel(scratch->pivots, PROFD_MAPLE_RANGE_PIVOTS * 8,
				      (void *)pivots);
}

/* The slot of a node that covers an address; 0 where there is none. node_last becomes the last
 * address that the slot covers. */
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

/* The leaf of scratch->mm's tree that covers an address, and in node_last its last one; 0 where the
 * tree changes under the walk, 1 where it is empty. */
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

/* Reads all of a leaf. The last slot may hold something else: a pivot says where the leaf ends. */
static __always_inline bool profd_read_slots(struct profd_scratch *scratch, __u64 leaf)
{
	__u64 slots = (leaf & ~255ULL) + bpf_core_field_offset(struct maple_range_64, slot);

	return profd_read_pivots(scratch, leaf) &&
	       !bpf_probe_read_kernel(scratch->slots, sizeof(scratch->slots), (void *)slots);
}

/* Fills in found_*; false where the entry is no VMA of this mm. */
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

/* Looks pc up in the tree of scratch->mm: fills in found_* and returns 0, or a profd_user_end.
 * Global, so that it is verified once. */
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
