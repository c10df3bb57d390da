/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What a CPU keeps between ticks: which records it has sent, spans of code, and unwind rules. At a
 * low sampling rate a tick finds the processor's own caches cold, so that avoiding look-ups saves
 * most of its time.
 */
#ifndef PROFD_CACHE_H
#define PROFD_CACHE_H

#include "bpf/scratch.h"

/*
 * Direct-mapped caches of hashes of the records that this CPU has sent. User space may forget
 * records when a session ends, so it raises filter.announcements when a session starts: then all
 * records are sent again.
 */
#define PROFD_SENT_MAPPINGS 1024
#define PROFD_SENT_PROCESSES 512
#define PROFD_SENT_FIRSTS 512
#define PROFD_SENT_LISTS 128

struct profd_sent {
	__u64 mappings[PROFD_SENT_MAPPINGS];
	__u64 processes[PROFD_SENT_PROCESSES];
	__u64 firsts[PROFD_SENT_FIRSTS]; /* files, and processes with anonymous code */
	__u64 lists[PROFD_SENT_LISTS];	 /* processes with all their executable mappings */
};

/* Whether the code of a span has unwind rows. */
enum profd_rows {
	PROFD_ROWS_READY = 1,
	PROFD_ROWS_NONE = 2,	/* the file has no rows */
	PROFD_ROWS_PENDING = 3, /* the file has no table yet */
	PROFD_ROWS_UNUSED = 4,	/* the code is not in a file, or no tables are made */
};

/* The part of an executable mapping that is in one region of its file. */
struct profd_span {
	__u64 start;
	__u64 bytes;
	__u64 mapping_id;
	__u32 offset; /* of start within the file region */
	__u32 rows;   /* profd_rows; the members below are valid if READY: see struct profd_table */
	__u32 number;
	__u32 arena;
	__u32 buckets_at;
	__u32 first_bucket;
	__u32 bucket_count;
	__u32 runtime; /* the interpreter in the file, by number; 0: none. Valid for all of `rows`
			*/
};

#define PROFD_SPANS 8

/* Spans of an address space; valid as long as the first six members match the tick's. */
struct profd_space {
	__u64 mm;
	__u64 start_ns; /* of the process: the address of an mm can be reused */
	__u32 exec_id;
	__u32 sequence;
	__u32 announcements; /* the mappings of the spans were sent under this value */
	__u32 table_generation;
	__u32 span_count;
	__u32 next_span; /* to replace */
	/* The interpreter of the span that was added last and had one; 0: none. */
	__u32 runtime;
	__u32 reserved;
	__u64 runtime_base; /* where its file would begin: address - offset in the file */
	struct profd_span spans[PROFD_SPANS];
};

/* Cached spaces, and one for a space that can't be cached: it is reset at each tick. */
#define PROFD_SPACES 8
#define PROFD_UNCACHED_SPACE PROFD_SPACES

/* An entry is: number of the table << 46 | offset in the file region << 22 | rule. No table has the
 * number 0, so an entry of 0 is empty. */
#define PROFD_CACHED_RULES 256
#define PROFD_CACHED_NUMBER_SHIFT (PROFD_FILE_REGION_SHIFT + PROFD_RULE_BITS)
_Static_assert(PROFD_TABLE_NUMBER_BITS + PROFD_CACHED_NUMBER_SHIFT == 64, "an entry has 64 bits");

/* What a user may still have sent (credit.h). */
struct profd_credit {
	__u64 taken; /* the CPU's ticks when it was last earned; 0: never */
	__s64 bytes;
};

#define PROFD_CREDITS 64

struct profd_cache {
	__u32 table_generation; /* of the rules */
	__u32 reserved;
	__u64 rules[PROFD_CACHED_RULES];
	struct profd_space spaces[PROFD_SPACES + 1];
	struct profd_sent sent;
	struct profd_credit credits[PROFD_CREDITS]; /* of users, by hash */
	struct profd_credit credit_together;	    /* of all users but root */
};

PROFD_PER_CPU(profd_cache);

/* The entry of the sent caches for a hash. Never 0. */
static __always_inline __u64 profd_sent_tag(const struct profd_scratch *scratch, __u64 hash)
{
	return (hash + scratch->announcements * 0x9e3779b97f4a7c15ULL) | 1;
}

/*
 * A number that changes with the current task's mappings. False if the kernel has none, or the
 * mappings are changing: then nothing may be cached beyond this tick.
 */
static __always_inline bool profd_mapping_sequence(struct task_struct *task, __u32 *sequence)
{
	struct mm_struct___sequence_count *counted = (void *)task->mm;
	struct mm_struct___sequence_number *numbered = (void *)task->mm;

	if (bpf_core_field_exists(counted->mm_lock_seq.sequence)) {
		*sequence = counted->mm_lock_seq.sequence;
		return !(*sequence & 1);
	}
	if (!bpf_core_field_exists(numbered->mm_lock_seq))
		return false;
	*sequence = numbered->mm_lock_seq;
	return true;
}

static __always_inline bool profd_space_is_valid(const struct profd_space *space,
						 const struct profd_scratch *scratch)
{
	const struct profd_process_key *process = &scratch->sample.process;

	return scratch->has_sequence && space->mm == scratch->mm &&
	       space->start_ns == process->start_ns && space->exec_id == process->exec_id &&
	       space->sequence == scratch->sequence &&
	       space->announcements == scratch->announcements &&
	       space->table_generation == scratch->table_generation;
}

static __always_inline void profd_reset_space(struct profd_space *space,
					      const struct profd_scratch *scratch)
{
	space->mm = scratch->mm;
	space->start_ns = scratch->sample.process.start_ns;
	space->exec_id = scratch->sample.process.exec_id;
	space->sequence = scratch->sequence;
	space->announcements = scratch->announcements;
	space->table_generation = scratch->table_generation;
	space->span_count = 0;
	space->next_span = 0;
	space->runtime = 0;
	space->runtime_base = 0;
}

/* Selects the cached space of the current task, and resets it if it is not valid. */
static __always_inline void profd_enter_space(struct profd_scratch *scratch,
					      struct profd_cache *cache, struct task_struct *task)
{
	__u32 sequence = 0;

	scratch->mm = (__u64)task->mm;
	scratch->has_sequence = profd_mapping_sequence(task, &sequence);
	scratch->sequence = sequence;
	scratch->space = scratch->has_sequence ? scratch->sample.process.tgid % PROFD_SPACES
					       : PROFD_UNCACHED_SPACE;
	struct profd_space *space = &cache->spaces[scratch->space];

	if (!profd_space_is_valid(space, scratch))
		profd_reset_space(space, scratch);
}

/* Drops the cached rules if the generation of tables has changed: table numbers are reused. */
__noinline int profd_invalidate_rules(__u32 table_generation)
{
	struct profd_cache *cache = profd_cache_here();

	if (!cache || cache->table_generation == table_generation)
		return 0;
	for (__u32 i = 0; i < PROFD_CACHED_RULES; i++) {
		cache->rules[i] = 0;
		barrier(); /* otherwise clang replaces the loop by a call of memset() */
	}
	cache->table_generation = table_generation;
	return 0;
}

#endif
