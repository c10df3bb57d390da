/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What a CPU remembers between ticks: what it has told, where code lies, and which rules held
 * there. At a low rate a tick finds the processor's own caches cold, so what is not looked up again
 * is most of what it saves.
 */
#ifndef PROFD_MEMORY_H
#define PROFD_MEMORY_H

#include "bpf/scratch.h"

/*
 * Direct-mapped caches of hashes: a record that is remembered went out on this CPU. User space may
 * let go of what it was told when a session ends, so it raises filter.announcements when one
 * starts: then all is told again.
 */
#define PROFD_SENT_MAPPINGS 1024
#define PROFD_SENT_PROCESSES 512
#define PROFD_SENT_FILES 512
#define PROFD_SENT_LISTS 128

struct profd_sent {
	__u64 mappings[PROFD_SENT_MAPPINGS];
	__u64 processes[PROFD_SENT_PROCESSES];
	__u64 files[PROFD_SENT_FILES];
	__u64 lists[PROFD_SENT_LISTS]; /* all executable mappings of a process, as they stood */
};

/* What is known of a span's rows. */
enum profd_rows {
	PROFD_ROWS_READY = 1,
	PROFD_ROWS_NONE = 2,	  /* of a file without rows */
	PROFD_ROWS_LATE = 3,	  /* of a file without a table yet */
	PROFD_ROWS_NOT_ASKED = 4, /* of no file, or nobody makes tables */
};

/* The part of an executable mapping that lies in one piece of its file. */
struct profd_span {
	__u64 start;
	__u64 bytes;
	__u64 mapping_id;
	__u32 offset; /* of start within the piece */
	__u32 rows;   /* profd_rows; the rest is of READY: see struct profd_table */
	__u32 number;
	__u32 arena;
	__u32 buckets_at;
	__u32 first_bucket;
	__u32 bucket_count;
	__u32 reserved;
};

#define PROFD_SPANS 8

/* Spans of an address space that were met lately, for as long as the first part stands. */
struct profd_space {
	__u64 mm;
	__u64 start_ns; /* of the process: an mm's address is used again */
	__u32 exec_id;
	__u32 sequence;
	__u32 announcements; /* a span's mapping was told */
	__u32 tables;
	__u32 span_count;
	__u32 next_span; /* to give up */
	struct profd_span spans[PROFD_SPANS];
};

/* Spaces that are remembered, and one for those that can't be, which is emptied at each tick. */
#define PROFD_SPACES 8
#define PROFD_PASSING_SPACE PROFD_SPACES

/* A rule is remembered under all that it depends on: number of the table << 46 | offset in the
 * piece << 22 | rule. No table has the number 0, so an empty entry is no rule. */
#define PROFD_KNOWN_RULES 256
#define PROFD_KNOWN_NUMBER_SHIFT (PROFD_PIECE_SHIFT + PROFD_RULE_BITS)
_Static_assert(PROFD_TABLE_NUMBER_BITS + PROFD_KNOWN_NUMBER_SHIFT == 64, "no bit is left out");

struct profd_memory {
	__u32 tables; /* filter.tables of which the rules are */
	__u32 reserved;
	__u64 rules[PROFD_KNOWN_RULES];
	struct profd_space spaces[PROFD_SPACES + 1];
	struct profd_sent sent;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct profd_memory);
} profd_memory SEC(".maps");

_Static_assert(sizeof(struct profd_memory) <= 32768, "a per-CPU value holds 32 KiB");

static __always_inline struct profd_memory *profd_memory_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&profd_memory, &zero);
}

/* What the caches of told things hold of a hash. Never 0. */
static __always_inline __u64 profd_sent_tag(const struct profd_scratch *scratch, __u64 hash)
{
	return (hash + scratch->announcements * 0x9e3779b97f4a7c15ULL) | 1;
}

/*
 * The number of changes of the current task's mappings. False where there is none to rely on: what
 * is remembered then holds for this tick only.
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

static __always_inline bool profd_space_stands(const struct profd_space *space,
					       const struct profd_scratch *scratch)
{
	const struct profd_process_key *process = &scratch->sample.process;

	return scratch->has_sequence && space->mm == scratch->mm &&
	       space->start_ns == process->start_ns && space->exec_id == process->exec_id &&
	       space->sequence == scratch->sequence &&
	       space->announcements == scratch->announcements && space->tables == scratch->tables;
}

static __always_inline void profd_empty_space(struct profd_space *space,
					      const struct profd_scratch *scratch)
{
	space->mm = scratch->mm;
	space->start_ns = scratch->sample.process.start_ns;
	space->exec_id = scratch->sample.process.exec_id;
	space->sequence = scratch->sequence;
	space->announcements = scratch->announcements;
	space->tables = scratch->tables;
	space->span_count = 0;
	space->next_span = 0;
}

/* Finds what is remembered of the current task's address space, which may be nothing. */
static __always_inline void profd_enter_space(struct profd_scratch *scratch,
					      struct profd_memory *memory, struct task_struct *task)
{
	__u32 sequence = 0;

	scratch->mm = (__u64)task->mm;
	scratch->has_sequence = profd_mapping_sequence(task, &sequence);
	scratch->sequence = sequence;
	scratch->space = scratch->has_sequence ? scratch->sample.process.tgid % PROFD_SPACES
					       : PROFD_PASSING_SPACE;
	struct profd_space *space = &memory->spaces[scratch->space];

	if (!profd_space_stands(space, scratch))
		profd_empty_space(space, scratch);
}

/* Another generation of tables gives their numbers to other rows. */
__noinline int profd_keep_rules_of(__u32 tables)
{
	struct profd_memory *memory = profd_memory_here();

	if (!memory || memory->tables == tables)
		return 0;
	for (__u32 i = 0; i < PROFD_KNOWN_RULES; i++) {
		memory->rules[i] = 0;
		barrier(); /* or clang makes a call of memset() of the loop */
	}
	memory->tables = tables;
	return 0;
}

#endif
