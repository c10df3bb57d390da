/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The maps of unwind tables, which user space fills, and the search for a rule (unwind_rows.h).
 *
 * Rows are words of a large array value and are indexed directly: a helper call for each step of
 * the search would cost more than the rest of a frame. Every index is masked, so a malformed table
 * can only cause wrong rules.
 */
#ifndef PROFD_TABLES_H
#define PROFD_TABLES_H

#include "bpf/cache.h"

/* Preallocated, because ticks write used_ns. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PROFD_MAX_TABLES);
	__type(key, struct profd_table_key);
	__type(value, struct profd_table);
} profd_tables SEC(".maps");

struct profd_arena_words {
	__u32 words[PROFD_ARENA_WORDS];
};

struct profd_arena {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct profd_arena_words));
};

/* User space creates the arenas when it needs them. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, PROFD_MAX_ARENAS);
	__type(key, __u32);
	__array(values, struct profd_arena);
} profd_arenas SEC(".maps");

/* The dictionary. User space writes the entries; the first is all 0, a PROFD_RULE_UNKNOWN. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PROFD_MAX_RULES);
	__type(key, __u32);
	__type(value, struct profd_rule);
} profd_rules SEC(".maps");

static __always_inline const struct profd_arena_words *profd_arena(__u32 arena)
{
	void *map = bpf_map_lookup_elem(&profd_arenas, &arena);
	__u32 zero = 0;

	return map ? bpf_map_lookup_elem(map, &zero) : NULL;
}

static __always_inline __u32 profd_arena_word(const struct profd_arena_words *arena, __u32 index)
{
	return arena->words[index & (PROFD_ARENA_WORDS - 1)];
}

#define PROFD_NO_RULE (PROFD_RULE_IN_DICTIONARY | PROFD_RULE_INDEX_UNKNOWN)

/* A bucket has at most one row for each of its 1024 offsets, and the row before: 11 halvings. */
#define PROFD_MAX_HALVINGS (PROFD_BUCKET_SHIFT + 1)

/*
 * The last of the `count` rows from `first` that is not behind an offset; the first row if all are.
 * A mask replaces the branch of the binary search: it halves the verifier's states, and nothing can
 * be mispredicted. barrier_var() keeps clang from making a branch of it.
 */
static __always_inline __u32 profd_last_row(const struct profd_arena_words *arena, __u32 first,
					    __u32 count, __u32 offset)
{
#pragma clang loop unroll(disable)
	for (int i = 0; i < PROFD_MAX_HALVINGS && count > 1; i++) {
		__u32 half = count / 2;
		__s64 behind =
			(__s64)profd_row_offset(profd_arena_word(arena, first + half)) - offset - 1;
		__u64 not_behind = behind >> 63;

		barrier_var(not_behind);
		first += half & not_behind;
		count -= half;
	}
	return profd_arena_word(arena, first);
}

/* The rule for an offset in a span's file region. */
static __always_inline __u32 profd_search_rows(const struct profd_span *span, __u32 offset)
{
	const struct profd_arena_words *arena = profd_arena(span->arena);
	__u32 bucket = (offset >> PROFD_BUCKET_SHIFT) - span->first_bucket;

	if (!arena || bucket >= span->bucket_count)
		return PROFD_NO_RULE;
	__u32 start = profd_arena_word(arena, span->buckets_at + bucket);
	__u32 end = profd_arena_word(arena, span->buckets_at + bucket + 1);

	/* Includes the row before the bucket's first, which may extend into the bucket. */
	return profd_row_rule(
		profd_last_row(arena, start - 1, end - start + 1, offset & PROFD_ROW_OFFSET_MASK));
}

#endif
