/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Spans of code: the part of an executable mapping that is in one region of its file, with the
 * table of that region. A CPU caches the spans of the address spaces that it sampled last.
 */
#ifndef PROFD_SPANS_H
#define PROFD_SPANS_H

#include "bpf/announce.h"
#include "bpf/cache.h"
#include "bpf/tables.h"
#include "bpf/vma.h"

#define PROFD_FILE_REGION_BYTES (1ULL << PROFD_FILE_REGION_SHIFT)

/* In one walk. A search needs 1 us at most. The stacks of real programs that change between more
 * mappings than PROFD_SPANS do so a few times; a chain of frames that somebody made can do so with
 * each of its 1024 frames, and would take a millisecond of each tick. */
#define PROFD_MAX_SPAN_SEARCHES 48

/* Limits the described mapping, which begins at file_offset, to the file region around pc. False if
 * the number of the region does not fit. */
static __always_inline bool profd_cut_span(const struct profd_mapping *mapping, __u64 file_offset,
					   __u64 pc, struct profd_span *span, __u32 *region)
{
	__u64 offset = pc - mapping->start + file_offset;
	__u64 region_start = offset & ~(PROFD_FILE_REGION_BYTES - 1);
	__u64 first = file_offset > region_start ? file_offset : region_start;
	__u64 last = file_offset + (mapping->end - mapping->start) - 1;

	if (last > region_start + (PROFD_FILE_REGION_BYTES - 1))
		last = region_start + (PROFD_FILE_REGION_BYTES - 1);
	span->start = mapping->start + (first - file_offset);
	span->bytes = last - first + 1;
	span->offset = first - region_start;
	*region = offset >> PROFD_FILE_REGION_SHIFT;
	return *region == offset >> PROFD_FILE_REGION_SHIFT;
}

/* Completes scratch->table_key, whose region is set, for the described mapping. */
static __always_inline void profd_fill_table_key(struct profd_scratch *scratch)
{
	const struct profd_mapping *mapping = &scratch->mapping;
	struct profd_table_key *key = &scratch->table_key;

	key->file = mapping->file;
	if (mapping->kind == PROFD_MAPPING_VDSO)
		key->file.inode = PROFD_VDSO_INODE;
	if (mapping->kind != PROFD_MAPPING_ANONYMOUS)
		return;
	key->file.inode = PROFD_JIT_CODE_INODE;
	key->file.size = mapping->process.start_ns;
	key->file.ctime_ns = key->region / PROFD_FILE_REGIONS_PER_JIT_AREA;
	key->file.device = mapping->process.tgid;
	key->file.generation = mapping->process.exec_id;
	key->region %= PROFD_FILE_REGIONS_PER_JIT_AREA;
}

/* What the absence of a table means. For a file, user space can still make one. For the vDSO, it
 * has made one at its start or can't make any. JIT code without rows is assumed to have frame
 * pointers. */
static __always_inline __u32 profd_rows_without_table(__u32 kind)
{
	if (kind == PROFD_MAPPING_FILE)
		return PROFD_ROWS_PENDING;
	return kind == PROFD_MAPPING_VDSO ? PROFD_ROWS_NONE : PROFD_ROWS_UNUSED;
}

/* Copies what user space has stored under scratch->table_key to the span. */
static __always_inline void profd_find_table(struct profd_scratch *scratch, struct profd_span *span)
{
	struct profd_table *table = bpf_map_lookup_elem(&profd_tables, &scratch->table_key);

	if (!table) {
		span->rows = profd_rows_without_table(scratch->mapping.kind);
		return;
	}
	table->used_ns = scratch->sample.time_ns;
	span->rows = table->state == PROFD_TABLE_READY && table->number ? PROFD_ROWS_READY
									: PROFD_ROWS_NONE;
	span->number = table->number & PROFD_MAX_TABLE_NUMBER;
	span->arena = table->arena;
	span->buckets_at = table->buckets_at;
	span->first_bucket = table->first_bucket;
	span->bucket_count = table->bucket_count;
	span->runtime = table->runtime;
}

/* Notes the interpreter of a span of the described mapping. */
static __always_inline void profd_note_runtime(const struct profd_scratch *scratch,
					       struct profd_space *space,
					       const struct profd_span *span)
{
	const struct profd_mapping *mapping = &scratch->mapping;

	if (!span->runtime)
		return;
	space->runtime = span->runtime;
	space->runtime_base = mapping->start - mapping->file_offset;
}

/* Fills in the span of the described mapping around pc. */
static __always_inline void profd_fill_span(struct profd_scratch *scratch, __u64 pc,
					    struct profd_space *space, struct profd_span *span)
{
	const struct profd_mapping *mapping = &scratch->mapping;
	/* The rows of JIT code are keyed by address. */
	__u64 file_offset =
		mapping->kind == PROFD_MAPPING_ANONYMOUS ? mapping->start : mapping->file_offset;

	span->mapping_id = mapping->id;
	span->number = 0;
	span->runtime = 0;
	if (scratch->table_generation &&
	    profd_cut_span(mapping, file_offset, pc, span, &scratch->table_key.region)) {
		profd_fill_table_key(scratch);
		profd_find_table(scratch, span);
		profd_note_runtime(scratch, space, span);
		return;
	}
	span->start = mapping->start;
	span->bytes = mapping->end - mapping->start;
	span->offset = 0;
	span->rows = PROFD_ROWS_UNUSED;
}

/* Finds and announces the mapping of pc, and caches its span. Returns 0 or a profd_user_end. */
static __always_inline __u32 profd_add_span(struct profd_scratch *scratch,
					    struct profd_cache *cache, struct profd_space *space,
					    __u64 pc)
{
	__u32 failure = profd_find_vma(pc);

	if (failure)
		return failure;
	if (!(scratch->found_flags & VM_EXEC))
		return PROFD_END_PC_NOT_EXECUTABLE;
	__u32 place = space->next_span % PROFD_SPANS;

	profd_describe_mapping(scratch);
	/* If the record could not be sent, the next tick must find the mapping and try again. */
	if (!profd_announce_mapping(scratch, cache))
		space->mm = 0;
	profd_fill_span(scratch, pc, space, &space->spans[place]);
	space->next_span = place + 1;
	if (space->span_count < PROFD_SPANS)
		space->span_count++;
	scratch->walk.span = place;
	return 0;
}

static __always_inline bool profd_find_span(const struct profd_space *space,
					    struct profd_walk *walk, __u64 pc)
{
	__u32 count = space->span_count;

	for (__u32 i = 0; i < PROFD_SPANS && i < count; i++) {
		if (pc - space->spans[i].start >= space->spans[i].bytes)
			continue;
		walk->span = i;
		return true;
	}
	return false;
}

/* Makes the span that contains pc the walk's current one. Returns 0 or a profd_user_end. Global, so
 * that it is verified once and not in each iteration of the walk. */
__noinline int profd_enter_span(__u64 pc)
{
	struct profd_scratch *scratch = profd_scratch_here();
	struct profd_cache *cache = profd_cache_here();

	if (!scratch || !cache || scratch->space > PROFD_UNCACHED_SPACE)
		return PROFD_END_MAPPING_RACE;
	struct profd_space *space = &cache->spaces[scratch->space];
	struct profd_walk *walk = &scratch->walk;

	if (!profd_find_span(space, walk, pc)) {
		if (walk->span_searches++ >= PROFD_MAX_SPAN_SEARCHES)
			return PROFD_END_MAPPING_CHANGES;
		__u32 failure = profd_add_span(scratch, cache, space, pc);

		if (failure)
			return failure;
	}
	const struct profd_span *span = &space->spans[walk->span % PROFD_SPANS];

	walk->span_start = span->start;
	walk->span_bytes = span->bytes;
	walk->span_offset = span->offset;
	walk->span_number = span->number;
	walk->span_rows = span->rows;
	walk->span_runtime = span->runtime;
	walk->mapping = profd_list_mapping(span->mapping_id);
	return 0;
}

/* Finds the rule for an offset in the current span's file region, and caches it at `place`. */
__noinline __u32 profd_find_rule(__u32 offset, __u32 place)
{
	struct profd_scratch *scratch = profd_scratch_here();
	struct profd_cache *cache = profd_cache_here();

	if (!scratch || !cache || scratch->space > PROFD_UNCACHED_SPACE)
		return PROFD_NO_RULE;
	const struct profd_space *space = &cache->spaces[scratch->space];
	const struct profd_span *span = &space->spans[scratch->walk.span % PROFD_SPANS];
	__u32 rule = profd_search_rows(span, offset);

	cache->rules[place % PROFD_CACHED_RULES] = (__u64)span->number
							   << PROFD_CACHED_NUMBER_SHIFT |
						   (__u64)offset << PROFD_RULE_BITS | rule;
	return rule;
}

/* The rule for an address in the walk's current span, whose rows are READY. */
static __always_inline __u32 profd_rule_at(const struct profd_cache *cache,
					   const struct profd_walk *walk, __u64 pc)
{
	__u32 offset = pc - walk->span_start + walk->span_offset;
	__u64 tag = (__u64)walk->span_number << PROFD_CACHED_NUMBER_SHIFT |
		    (__u64)offset << PROFD_RULE_BITS;
	__u32 place = (offset ^ offset >> 7 ^ walk->span_number) % PROFD_CACHED_RULES;
	__u64 cached = cache->rules[place];

	if (!((cached ^ tag) >> PROFD_RULE_BITS))
		return cached & ((1U << PROFD_RULE_BITS) - 1);
	return profd_find_rule(offset, place);
}

#endif
