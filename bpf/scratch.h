/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Working memory of one tick. A per-CPU value holds at most 32 KiB. Ticks do not nest on a CPU: the
 * kernel does not run a perf event's program while another one runs there (bpf_prog_active).
 */
#ifndef PROFD_SCRATCH_H
#define PROFD_SCRATCH_H

#include "bpf/kernel_types.h"
#include "bpf/block_abi.h"
#include "bpf/profd_abi.h"
#include "bpf/unwind_rows.h"

#define PROFD_MAX_WORDS (PROFD_MAX_KERNEL_FRAMES + PROFD_MAX_USER_FRAMES + PROFD_MAX_STACK_MAPPINGS)
#define PROFD_MAX_DEFERRED_WORDS                                                                   \
	((sizeof(struct profd_deferred_stack) + PROFD_DEFERRED_WINDOW_BYTES) / 8)
#define PROFD_WINDOW_BYTES 1024
#define PROFD_COMPONENT_BYTES 256 /* NAME_MAX and its NUL */
#define PROFD_MAPLE_SLOTS 16

/* State of the walk of the user stack. */
struct profd_walk {
	__u64 ip, sp, bp, bx; /* of the current frame */
	__u32 lost;	      /* PROFD_LOST_ bits */
	__u32 how;	      /* profd_frame_how of ip */

	/* A copy of the span that contains ip (spans.h): consecutive frames often share it. */
	__u64 span_start;
	__u64 span_bytes;
	__u32 span_offset;  /* of its start within the file region */
	__u32 span_number;  /* number of its table */
	__u32 span_rows;    /* profd_rows */
	__u32 span_runtime; /* of profd_span */
	__u32 span;	    /* index in profd_space.spans */
	__u32 mapping;	    /* index in the sample's list of mapping ids */

	__u32 signal_frames;
	__u32 span_searches; /* spans that were not in the cache */
	__u64 window_start;  /* the user address that scratch->window's first byte stands for */
	__u32 next;	     /* index of the next word in scratch->words */
	__u32 frames;
	__u32 end;		      /* profd_user_end */
	__u32 callee_was_interrupted; /* 1: a row led here from an interrupted frame */

	/* Of the interpreted frames (interpreters.h). */
	__u32 interpreted; /* 1: their chain was walked */
	__u32 by_loop;	   /* 1: segments remain that have no anchor */
	__u64 anchor;	   /* of the next segment; 0: none */
};

/*
 * State of loops in bpf_loop(). It is in a map value, because the verifier does not track values
 * there: before Linux 6.8 the verifier checks only the first call of a callback and removes code
 * which that call cannot reach. So no state that one call passes to the next may be on the stack.
 */
struct profd_name_walk {
	__u64 node;  /* struct dentry or kernfs_node */
	__u64 mount; /* struct mount */
	__u32 used;
	__u32 cut; /* 1 until the walk reaches a root */
};

struct profd_listing {
	__u64 next; /* address */
	__u32 count;
	__u32 complete; /* 1 after the last leaf */
};

/* The members that every tick uses come first, close together: at a low sampling rate each cache
 * line and each page is a miss. */
struct profd_scratch {
	__u64 mm;		/* of the current task, as a number */
	__u32 space;		/* index in profd_cache.spaces */
	__u32 sequence;		/* of its mappings; valid if has_sequence */
	__u32 has_sequence;	/* 0 before Linux 6.4, and while the mappings change */
	__u32 announcements;	/* of the filter, at this tick */
	__u32 table_generation; /* of the filter, at this tick */

	/* Ids of the executable mappings that the stack has met. */
	__u32 mapping_count;
	__u64 mapping_ids[PROFD_MAX_STACK_MAPPINGS + 1];
	struct profd_walk walk;

	/* Stack memory. Twice the window's size: a short read goes to its upper end (frame.h). */
	__u64 window[2 * PROFD_WINDOW_BYTES / 8];

	/* The record: a struct and the words that follow it. In front of it, what makes it the
	 * start of a block (block_abi.h); ticks leave that out. */
	struct profd_block block;
	struct profd_sample sample;
	__u64 words[PROFD_MAX_WORDS + PROFD_MAX_DEFERRED_WORDS];

	__u64 registers[PROFD_DWARF_REGISTERS]; /* of an interrupted frame (frame.h) */
	__u64 sigcontext[PROFD_SIGCONTEXT_WORDS];
	struct profd_table_key table_key;

	/* Fields of the VMA that was found last. */
	__u64 found_start;
	__u64 found_end;
	__u64 found_flags;
	__u64 found_pgoff;
	__u64 found_file;

	/* The maple tree node that was read last, and the last address that it covers. */
	__u64 pivots[PROFD_MAPLE_SLOTS];
	__u64 slots[PROFD_MAPLE_SLOTS];
	__u64 node_last;

	struct profd_listing listing;
	struct profd_name_walk name_walk;

	/* With room for one component behind the limit, so that the verifier needs only a bound on
	 * the offset. */
	struct profd_mapping mapping;
	char names[PROFD_MAX_NAME_BYTES + PROFD_COMPONENT_BYTES];
	struct profd_process process;
	char cgroup[PROFD_MAX_NAME_BYTES + PROFD_COMPONENT_BYTES];
};

_Static_assert(__builtin_offsetof(struct profd_scratch, sample) ==
		       __builtin_offsetof(struct profd_scratch, block) + sizeof(struct profd_block),
	       "a block and its sample are sent as one record");

PROFD_PER_CPU(profd_scratch);

#endif
