/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * A stack that runs into a file without a table yet: what user space needs to unwind it on, when
 * the table is there and the process may be gone. That is the frame's registers and the stack from
 * there on, and all executable mappings of the process.
 */
#ifndef PROFD_DEFERRED_H
#define PROFD_DEFERRED_H

#include "bpf/mapping.h"
#include "bpf/memory.h"
#include "bpf/registers.h"
#include "bpf/vma.h"

/* A list of mappings ends here, whoever made more: 128 leaves hold 700 mappings or more. */
#define PROFD_MAX_LEAVES 128
#define PROFD_MAX_LISTED 512

struct profd_listing_context {
	struct profd_scratch *scratch;
};

enum profd_tell_result {
	PROFD_TELL_NOTHING = 0,
	PROFD_TELL_TOLD = 1,
	PROFD_TELL_NO_ROOM = 2,
};

/* Announces the VMA in a leaf's slot where it is executable. Global, so that it is verified once.
 */
__noinline int profd_tell_slot(__u64 entry)
{
	struct profd_scratch *scratch = profd_scratch_here();
	struct profd_memory *memory = profd_memory_here();
	struct vm_area_struct *vma = (void *)entry;

	if (!scratch || !memory || !entry || !(BPF_CORE_READ(vma, vm_flags) & VM_EXEC) ||
	    !profd_read_vma(scratch, entry))
		return PROFD_TELL_NOTHING;
	profd_describe_mapping(scratch);
	return profd_announce_mapping(scratch, memory) ? PROFD_TELL_TOLD : PROFD_TELL_NO_ROOM;
}

/* All slots of one leaf. */
static long profd_tell_leaf(__u32 index, struct profd_listing_context *context)
{
	struct profd_scratch *scratch = context->scratch;
	struct profd_listing *listing = &scratch->listing;
	__u64 leaf = profd_maple_leaf(scratch, listing->next);
	__u64 last = scratch->node_last;

	if (leaf <= 1 || !profd_read_slots(scratch, leaf))
		return 1;
	for (__u32 i = 0; i < PROFD_MAPLE_SLOTS; i++) {
		__u64 pivot = i < PROFD_MAPLE_RANGE_PIVOTS ? scratch->pivots[i] : last;

		int result = profd_tell_slot(scratch->slots[i]);

		if (result == PROFD_TELL_NO_ROOM)
			return 1;
		listing->told += result == PROFD_TELL_TOLD;
		if (pivot >= last || !pivot)
			break;
	}
	listing->next = last + 1;
	listing->whole = !listing->next;
	return listing->whole || listing->told >= PROFD_MAX_LISTED;
}

/* Under what a CPU remembers that it told all mappings of a process as they stand. Never 0. */
static __always_inline __u64 profd_list_tag(const struct profd_scratch *scratch)
{
	__u64 hash = profd_hash_process(&scratch->sample.process);

	return profd_sent_tag(scratch, profd_hash_end(profd_hash_word(hash, scratch->sequence)));
}

/* Tells all executable mappings of the current process, where this CPU has not. */
__noinline int profd_tell_mappings(void)
{
	struct profd_scratch *scratch = profd_scratch_here();
	struct profd_memory *memory = profd_memory_here();

	if (!scratch || !memory)
		return 0;
	struct profd_listing_context context = {.scratch = scratch};
	__u64 tag = profd_list_tag(scratch);
	__u64 *place = &memory->sent.lists[tag / 2 % PROFD_SENT_LISTS];

	if (*place == tag)
		return 0;
	__builtin_memset(&scratch->listing, 0, sizeof(scratch->listing));
	bpf_loop(PROFD_MAX_LEAVES, profd_tell_leaf, &context, 0);
	if (scratch->listing.whole && scratch->has_sequence)
		*place = tag;
	return 0;
}

/* The walk's frame. */
static __always_inline void profd_fill_deferred(struct profd_scratch *scratch,
						struct profd_deferred_stack *late)
{
	struct profd_walk *walk = &scratch->walk;
	bool known = profd_was_interrupted(walk);

	late->ip = walk->ip;
	late->sp = walk->sp;
	late->bp = walk->bp;
	late->bx = walk->bx;
	late->lost = walk->lost;
	late->signal_frames = walk->signal_frames;
	late->window_start = profd_frame_floor(walk) & ~7ULL;
	if (known)
		profd_know_registers(scratch);
	for (int i = 0; i < PROFD_DWARF_REGISTERS; i++)
		late->registers[i] = known ? scratch->registers[i] : 0;
}

/* Copies stack from an address on to scratch->words[at]; returns how many words could be read. */
static __always_inline __u32 profd_copy_stack(struct profd_scratch *scratch, __u64 address,
					      __u32 at)
{
	char *out = (char *)&scratch->words[at];
	__u32 used = 0;

	if (!bpf_probe_read_user(out, PROFD_DEFERRED_WINDOW_BYTES, (void *)address))
		return PROFD_DEFERRED_WINDOW_BYTES / 8;
	for (int i = 0; i < PROFD_DEFERRED_WINDOW_BYTES / PROFD_PAGE_BYTES; i++) {
		__u64 bytes = PROFD_PAGE_BYTES - (address & (PROFD_PAGE_BYTES - 1));

		if (used > PROFD_DEFERRED_WINDOW_BYTES - PROFD_PAGE_BYTES)
			break;
		if (bpf_probe_read_user(out + used, bytes, (void *)address))
			break;
		address += bytes;
		used += bytes;
	}
	return used / 8;
}

/* Appends the late stack behind the sample's words, the first `at` of scratch->words. Where the
 * ring is filling up, a stack without its end is better than a sample that is lost. */
__noinline int profd_append_deferred(__u32 at)
{
	struct profd_scratch *scratch = profd_scratch_here();
	void *ring = profd_ring_here();

	if (!scratch || !ring || at > PROFD_MAX_WORDS)
		return 0;
	profd_tell_mappings();
	if (profd_wake_when_half_full(ring) == BPF_RB_FORCE_WAKEUP) {
		scratch->sample.user_end = PROFD_END_TABLE_LATE;
		return 0;
	}
	struct profd_deferred_stack *late = (void *)&scratch->words[at];

	profd_fill_deferred(scratch, late);
	scratch->sample.deferred_words =
		sizeof(*late) / 8 +
		profd_copy_stack(scratch, late->window_start, at + sizeof(*late) / 8);
	return 0;
}

#endif
