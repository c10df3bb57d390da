/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The working memory of the walk over one stack's interpreted frames, and what the header of each
 * interpreter (python.h) does with it. Compiled by clang for BPF, and by the host's compilers in
 * tests: valid C and C++.
 *
 * The BPF programs have one value for each CPU and object (interpreters.h): the verifier does not
 * track values there, so that it verifies one step for all. All offsets that come from a layout and
 * all that come from the process are masked or checked before they index anything.
 *
 * Before it includes the header of an interpreter, the includer defines
 *
 *     bool profd_read_user(void *to, __u32 bytes, __u64 address);
 *         False: not all of it is there now; the bytes of `to` are then 0. The caller has bounded
 *         `bytes` by the room there.
 *     __u64 profd_hash_word(__u64 hash, __u64 word); __u64 profd_hash_end(__u64 hash);
 *         As in identity.h; the latter is never 0.
 *
 * and the header of an interpreter defines, for NAME in python, php:
 *
 *     __u32 profd_NAME_begin(struct profd_interpreter *at);
 *         From at->thread (the value of the slot) to the leaf frame. Returns a profd_begin.
 *     long profd_NAME_step(struct profd_interpreter *at);
 *         Adds one frame, one boundary or both, and goes to the caller. 1: ended, at->end says why.
 *     bool profd_NAME_describe(struct profd_interpreter *at, __u64 code);
 *         Fills in at->announced (but for its header, time, process, id and kind) and the texts
 *         behind it, of the code at this address. False: not all could be read; at->failed_reads
 *         has grown.
 */
#ifndef PROFD_INTERPRETER_STATE_H
#define PROFD_INTERPRETER_STATE_H

#include "bpf/interpreter_abi.h"
#include "bpf/python_abi.h"

/* Frames of one stack often lie close together, and a read of 1 KiB costs little more than one of
 * 80 bytes. */
#define PROFD_CHAIN_WINDOW_BYTES 1024

/* Reads of one tick, of frames and code objects. A stack of 46 frames has 55. A forged chain of as
 * many pages costs 40 us. An object may set its own before it includes this header. */
#ifndef PROFD_MAX_CHAIN_READS
#define PROFD_MAX_CHAIN_READS 256
#define PROFD_MAX_CODES_OF_TICK 32
#define PROFD_MAX_CODE_BYTES_OF_TICK 16384
#endif
/* A read that faults costs 0.8 us: it ends the chain, or the description of a code object. */
#define PROFD_MAX_FAILED_READS 6

/* Frames of one stack that have the same code: a frame holds a reference, so its code can't be
 * replaced during a tick. */
#define PROFD_CODE_MEMO 32

/* The results of a begin. */
enum profd_begin {
	PROFD_BEGIN_DONE = 0,
	PROFD_BEGIN_NO_THREAD_STATE = 1,
	PROFD_BEGIN_MISMATCH = 2,
	PROFD_BEGIN_UNREADABLE = 3,
};

struct profd_code_memo {
	__u64 code; /* 0: empty */
	__u64 id;
};

struct profd_segment {
	__u64 anchor;
	__u32 entry; /* its boundary in `entries` */
	__u32 reserved;
};

struct profd_interpreter {
	/* Set by the bones before begin. */
	struct profd_runtime runtime;
	struct profd_layout layout;
	__u64 bias;	    /* address in the process - vaddr */
	__u64 fsbase;	    /* of the thread */
	__u64 thread;	    /* the value of the slot that had one: the thread state */
	__u64 process_hash; /* profd_hash_process() */
	__u32 announcing;   /* 0: tags are not looked at (tests) */
	/* The native frame that met the interpreter, and whether it is the leaf. */
	__u32 is_leaf;
	__u64 leaf_ip; /* offset in the file */
	__u64 leaf_sp;
	__u64 leaf_cfa; /* above leaf_sp; where the native walk ended, a guess */

	/* The chain. */
	__u64 frame;  /* the next one; 0: none */
	__u64 cframe; /* of the current segment; 0: none */
	__u64 last_anchor;
	__u32 end;	    /* profd_chain_end */
	__u32 entry_count;
	__u32 frame_count;
	__u32 segment_count;
	__u32 reads;
	__u32 failed_reads;
	__u32 unannounced; /* frames whose code has no tag */
	__u32 met;	   /* segments whose anchor the native walk has passed */

	/* The frames' memory: window_start is the address of its first byte, window_low that of the
	 * first byte that was read. A frame that lies elsewhere is in `apart`. */
	__u64 window_start;
	__u64 window_low;
	__u64 last_read; /* address of the frame that was read last */
	__u64 window[(PROFD_CHAIN_WINDOW_BYTES + PROFD_PYTHON_MAX_FRAME_BYTES) / 8];
	__u64 apart[2 * PROFD_PYTHON_MAX_FRAME_BYTES / 8];
	/* Twice the size, so that a masked offset plus 8 is within. */
	__u64 code[2 * 256 / 8];

	struct profd_code_memo memo[PROFD_CODE_MEMO];
	struct profd_segment segments[PROFD_MAX_SEGMENTS];
	__u64 codes[PROFD_MAX_INTERPRETED_ENTRIES]; /* the address of each frame's code; boundary: 0 */

	/* The record. */
	struct profd_interpreted_stack stack;
	struct profd_interpreted_entry entries[PROFD_MAX_INTERPRETED_ENTRIES];

	/* What is announced now: a record. Behind the limit there is room for one whole text. */
	struct profd_interpreted_code announced;
	char texts[PROFD_MAX_CODE_TEXT_BYTES + PROFD_MAX_CODE_LINES_BYTES / 8];
};

/* To be used by the interpreters' headers alone. */

/* Adds a frame. False: the limit is reached. */
static inline bool profd_add_frame(struct profd_interpreter *at, __u64 id, __u64 code,
				   __u32 position)
{
	__u32 place = at->entry_count;

	if (at->frame_count >= PROFD_MAX_INTERPRETED_FRAMES ||
	    place >= PROFD_MAX_INTERPRETED_ENTRIES) {
		at->end = PROFD_CHAIN_FRAME_LIMIT;
		return false;
	}
	at->entries[place].value = id;
	at->entries[place].position = position;
	at->entries[place].kind = PROFD_ENTRY_FRAME;
	at->codes[place] = code;
	at->entry_count = place + 1;
	at->frame_count++;
	return true;
}

/* Ends a segment. False: the limit is reached, or the anchor is not above the one before. An anchor
 * of 0 is none. */
static inline bool profd_add_boundary(struct profd_interpreter *at, __u64 anchor)
{
	__u32 place = at->entry_count, number = at->segment_count;

	if (anchor && anchor <= at->last_anchor) {
		at->end = PROFD_CHAIN_DISORDERED;
		return false;
	}
	if (number >= PROFD_MAX_SEGMENTS || place >= PROFD_MAX_INTERPRETED_ENTRIES) {
		at->end = PROFD_CHAIN_FRAME_LIMIT;
		return false;
	}
	at->entries[place].value = anchor;
	at->entries[place].position = PROFD_NOT_MET;
	at->entries[place].kind = PROFD_ENTRY_BOUNDARY;
	at->codes[place] = 0;
	at->segments[number].anchor = anchor;
	at->segments[number].entry = place;
	at->last_anchor = anchor;
	at->entry_count = place + 1;
	at->segment_count = number + 1;
	return true;
}

#endif
