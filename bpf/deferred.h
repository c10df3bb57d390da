/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Deferred stacks: a stack that reaches a file without a table is sent with what user space needs
 * to continue the walk once the table exists, even if the process is gone by then: the registers of
 * the last frame, stack memory from there up, and all executable mappings of the process.
 */
#ifndef PROFD_DEFERRED_H
#define PROFD_DEFERRED_H

#include "bpf/cache.h"
#include "bpf/announce.h"
#include "bpf/frame.h"
#include "bpf/vma.h"

/* Limits for a process with very many mappings: 128 leaves hold 700 mappings or more. An object may
 * set its own before it includes this header. */
#ifndef PROFD_MAX_LEAVES
#define PROFD_MAX_LEAVES 128
#define PROFD_MAX_LISTED 512
#endif

struct profd_listing_context {
	struct profd_scratch *scratch;
};

enum profd_announce_result {
	PROFD_ANNOUNCE_SKIPPED = 0, /* not an executable mapping */
	PROFD_ANNOUNCE_DONE = 1,
	PROFD_ANNOUNCE_FAILED = 2, /* no room in the ring, or over the user's credit */
};

/* Announces the VMA in a leaf's slot if it is executable. Global, so that it is verified once. */
__noinline int profd_announce_slot(__u64 entry)
{
	struct profd_scratch *scratch = profd_scratch_here();
	struct profd_cache *cache = profd_cache_here();
	struct vm_area_struct *vma = (void *)entry;

	if (!scratch || !cache || !entry || !(BPF_CORE_READ(vma, vm_flags) & VM_EXEC) ||
	    !profd_read_vma(scratch, entry))
		return PROFD_ANNOUNCE_SKIPPED;
	profd_describe_mapping(scratch);
	return profd_announce_mapping(scratch, cache) ? PROFD_ANNOUNCE_DONE : PROFD_ANNOUNCE_FAILED;
}

static __always_inline bool profd_announce_visited(void *context, __u64 entry)
{
	struct profd_scratch *scratch = context;
	int result = profd_announce_slot(entry);

	scratch->listing.count += result == PROFD_ANNOUNCE_DONE;
	return result != PROFD_ANNOUNCE_FAILED;
}

static long profd_announce_leaf(__u32 index, struct profd_listing_context *context)
{
	struct profd_scratch *scratch = context->scratch;
	struct profd_counters *counters = profd_counters_here();
	struct profd_cache *cache = profd_cache_here();

	if (!counters || !cache || !profd_pay(cache, counters, PROFD_LEAF_COST))
		return 1;
	return !profd_visit_leaf(scratch, profd_announce_visited, scratch) ||
	       scratch->listing.complete || scratch->listing.count >= PROFD_MAX_LISTED;
}

/* Announces all executable mappings of the current process, unless this CPU has done so since they
 * last changed. */
__noinline int profd_announce_all_mappings(void)
{
	struct profd_scratch *scratch = profd_scratch_here();
	struct profd_cache *cache = profd_cache_here();

	if (!scratch || !cache)
		return 0;
	struct profd_listing_context context = {.scratch = scratch};
	__u64 hash =
		profd_hash_word(profd_hash_process(&scratch->sample.process), scratch->sequence);
	__u64 tag = profd_sent_tag(scratch, profd_hash_end(hash));
	__u64 *place = &cache->sent.lists[tag / 2 % PROFD_SENT_LISTS];

	if (*place == tag)
		return 0;
	__builtin_memset(&scratch->listing, 0, sizeof(scratch->listing));
	bpf_loop(PROFD_MAX_LEAVES, profd_announce_leaf, &context, 0);
	if (scratch->listing.complete && scratch->has_sequence)
		*place = tag;
	return 0;
}

/* Where the copy of the stack begins. The red zone may reach into a page that was never touched:
 * then at the page of sp. */
static __always_inline __u64 profd_deferred_start(const struct profd_walk *walk)
{
	__u64 start = profd_frame_floor(walk) & ~7ULL;
	__u64 page = walk->sp & ~(PROFD_PAGE_BYTES - 1ULL);
	__u64 word;

	if (start < page && bpf_probe_read_user(&word, sizeof(word), (void *)start))
		return page;
	return start;
}

/* Copies the registers of the walk's current frame. */
static __always_inline void profd_fill_deferred(struct profd_scratch *scratch,
						struct profd_deferred_stack *deferred)
{
	struct profd_walk *walk = &scratch->walk;
	bool known = profd_was_interrupted(walk);

	deferred->ip = walk->ip;
	deferred->sp = walk->sp;
	deferred->bp = walk->bp;
	deferred->bx = walk->bx;
	deferred->lost = walk->lost;
	deferred->signal_frames = walk->signal_frames;
	deferred->window_start = profd_deferred_start(walk);
	if (known)
		profd_load_registers(scratch);
	for (int i = 0; i < PROFD_DWARF_REGISTERS; i++)
		deferred->registers[i] = known ? scratch->registers[i] : 0;
}

/* Copies stack memory from an address up to scratch->words[at]. Returns the number of words that
 * could be read. */
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

/* Appends the deferred stack behind the first `at` words of the sample. If the ring is more than
 * half full it is left out: a stack without its end is better than a lost sample. */
__noinline int profd_append_deferred(__u32 at)
{
	struct profd_scratch *scratch = profd_scratch_here();
	void *ring = profd_ring_here();

	if (!scratch || !ring || at > PROFD_MAX_WORDS)
		return 0;
	profd_announce_all_mappings();
	if (profd_wake_when_half_full(ring) == BPF_RB_FORCE_WAKEUP) {
		scratch->sample.user_end = PROFD_END_TABLE_LATE;
		return 0;
	}
	struct profd_deferred_stack *deferred = (void *)&scratch->words[at];

	profd_fill_deferred(scratch, deferred);
	scratch->sample.deferred_words =
		sizeof(*deferred) / 8 +
		profd_copy_stack(scratch, deferred->window_start, at + sizeof(*deferred) / 8);
	return 0;
}

#endif
