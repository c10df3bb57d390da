/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Which code objects were announced, of all CPUs and both objects together: with a cache for each
 * CPU, a thread that moves would have its code sent again (interpreter_abi.h).
 */
#ifndef PROFD_CODE_TAGS_H
#define PROFD_CODE_TAGS_H

#include "bpf/kernel_types.h"
#include "bpf/interpreter_abi.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct profd_code_tags);
} profd_code_tags SEC(".maps");

static __always_inline struct profd_code_tags *profd_code_tags_now(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&profd_code_tags, &zero);
}

static __always_inline bool profd_is_announced(const struct profd_code_tags *tags, __u64 id)
{
	__u64 set = profd_code_set(id);
	__u32 tag = profd_code_tag(id);

	set *= PROFD_CODE_WAYS;
	return tags->tags[set] == tag || tags->tags[set + 1] == tag || tags->tags[set + 2] == tag ||
	       tags->tags[set + 3] == tag;
}

/* In an empty place of the set, or else in one that the id chooses. */
static __always_inline void profd_set_announced(struct profd_code_tags *tags, __u64 id)
{
	__u64 set = profd_code_set(id);
	__u64 way = id >> 2 & (PROFD_CODE_WAYS - 1);

	set *= PROFD_CODE_WAYS;
	if (!tags->tags[set])
		way = 0;
	else if (!tags->tags[set + 1])
		way = 1;
	else if (!tags->tags[set + 2])
		way = 2;
	else if (!tags->tags[set + 3])
		way = 3;
	__u64 place = set + way;

	barrier_var(place); /* otherwise clang drops the mask, whose bound Linux 6.1 wants */
	place &= PROFD_CODE_SETS * PROFD_CODE_WAYS - 1;
	tags->tags[place] = profd_code_tag(id);
}

_Static_assert(PROFD_CODE_WAYS == 4, "the ways of a set are written out");

/* For interpreter_state.h. */
static __always_inline bool profd_was_announced(__u64 id)
{
	const struct profd_code_tags *tags = profd_code_tags_now();

	return !tags || profd_is_announced(tags, id);
}

#endif
