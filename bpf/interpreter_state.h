/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The working memory of the walk over one stack's interpreted frames, and what the header of each
 * interpreter (python.h) does with it. Compiled by clang for BPF, and by the host's compilers in
 * tests: valid C and C++.
 *
 * The BPF programs have one value for each CPU and object (interpreters.h): the verifier does not
 * track values there, so that it verifies one step for all. All offsets that come from a layout and
 * all that come from the process are masked before they index anything; barrier_var() keeps clang
 * from dropping a mask that it can prove to be superfluous, which the verifier can't. Memory of the
 * process is kept in words, of which smaller fields are cut out: so no access is misaligned.
 *
 * Before it includes this header, the includer defines
 *
 *     bool profd_read_user(void *to, __u32 bytes, __u64 address);
 *         False: not all of it is there now; the bytes of `to` are then 0. The caller has bounded
 *         `bytes` by the room there.
 *     __u64 profd_hash_word(__u64 hash, __u64 word); __u64 profd_hash_end(__u64 hash);
 *         As in identity.h; the latter is never 0.
 *     bool profd_was_announced(__u64 id);
 *         Whether the code with this id was announced.
 *
 * and the header of an interpreter defines, for NAME in python, php:
 *
 *     __u32 profd_NAME_begin(struct profd_interpreter *at);
 *         From at->thread (the value of the slot) to the leaf frame. Returns a profd_begin. All of
 *         the chain that begin does not set is 0, window_low and `end` apart.
 *     long profd_NAME_step(struct profd_interpreter *at);
 *         Adds one frame, one boundary, both or, for a frame of the interpreter's own, neither, and
 *         goes to the caller. 1: ended, at->end says why.
 *     bool profd_NAME_describe(struct profd_interpreter *at, __u64 code);
 *         Fills in address, first_line and units of at->announced, and the texts behind it, of the
 *         code at this address; what stands for the texts, and at->text_used, are 0 before. False:
 *         its name or its file can't be read.
 */
#ifndef PROFD_INTERPRETER_STATE_H
#define PROFD_INTERPRETER_STATE_H

#include "bpf/interpreter_abi.h"
#include "bpf/python_abi.h"

#ifndef barrier_var
#define barrier_var(var) __asm__ volatile("" : "+r"(var))
#endif

/* Frames of one stack often lie close together, and a read of 1 KiB costs little more than one of
 * 80 bytes. */
#define PROFD_CHAIN_WINDOW_BYTES 1024
#define PROFD_CHAIN_PAGE_BYTES 4096

/* Reads of one tick, of frames and code objects; announcements have as many for each of theirs. A
 * stack of 46 frames has 55. A forged chain of as many pages costs 40 us. An object may set its own
 * before it includes this header. */
#ifndef PROFD_MAX_CHAIN_READS
#define PROFD_MAX_CHAIN_READS 256
#define PROFD_MAX_CODES_OF_TICK 32
#define PROFD_MAX_CODE_BYTES_OF_TICK 16384
#endif
/* Of one tick. A read that faults costs 0.8 us: it ends the chain, or the description of a code
 * object. */
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
	PROFD_BEGIN_NO_RUNTIME = 4, /* of the bones alone: user space has removed it */
};

struct profd_code_memo {
	__u64 code; /* 0: empty */
	__u64 id;   /* 0: its frames are not shown */
	__u32 units; /* of bytecode; 0: unknown */
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
	__u32 begin;	    /* profd_begin: what came of it */
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
	__u32 unannounced; /* code objects that were not announced */
	__u32 met;	   /* segments whose anchor the native walk has passed */
	__u32 place;	   /* in `window`, of the frame that was read last: bytes */
	__u32 text_used;   /* bytes of `texts` */
	__u32 codes_tried; /* code objects that the tick has described */
	__u32 code_bytes;  /* and the bytes of those that were sent */

	/* The frames' memory: window_start is the address of its first byte, window_low that of the
	 * first byte that was read (all bits set: nothing was). Behind its PROFD_CHAIN_WINDOW_BYTES
	 * there is a place for a frame that lies elsewhere, and room for every masked offset. */
	__u64 window_start;
	__u64 window_low;
	__u64 last_read; /* address of the frame that was read last; 0: none was */
	__u64 window[(2 * PROFD_CHAIN_WINDOW_BYTES + PROFD_PYTHON_MAX_FRAME_BYTES) / 8];
	/* The start of a code object; in the upper half, that of a text. */
	__u64 code[2 * 256 / 8];

	struct profd_code_memo memo[PROFD_CODE_MEMO];
	__u16 segments[PROFD_MAX_SEGMENTS]; /* their boundaries, in `entries` */
	__u64 codes[PROFD_MAX_INTERPRETED_ENTRIES]; /* of each frame, its code's address; else 0 */

	/* The record. */
	struct profd_interpreted_stack stack;
	struct profd_interpreted_entry entries[PROFD_MAX_INTERPRETED_ENTRIES];

	/* What is announced now: a record. Behind the limit there is room for one whole text. */
	struct profd_interpreted_code announced;
	char texts[PROFD_MAX_CODE_TEXT_BYTES + PROFD_MAX_CODE_LINES_BYTES / 8];
};

/* To be used by the interpreters' headers alone. */

/* As profd_read_user(), within the limits of the tick. */
static __always_inline bool profd_chain_read(struct profd_interpreter *at, void *to, __u32 bytes,
					     __u64 address)
{
	if (at->reads >= PROFD_MAX_CHAIN_READS || at->failed_reads >= PROFD_MAX_FAILED_READS)
		return false;
	at->reads++;
	if (profd_read_user(to, bytes, address))
		return true;
	at->failed_reads++;
	return false;
}

/* Notes that the chain ends since profd_chain_read() returned false. */
static __always_inline void profd_end_unread(struct profd_interpreter *at)
{
	at->end = at->reads >= PROFD_MAX_CHAIN_READS ? PROFD_CHAIN_FRAME_LIMIT
						     : PROFD_CHAIN_UNREADABLE;
}

/* A word of the frame that was read last, by its offset. */
static __always_inline __u64 profd_frame_word(const struct profd_interpreter *at, __u32 field)
{
	__u64 offset = (__u64)at->place + (field & (PROFD_PYTHON_MAX_FRAME_BYTES - 1));

	barrier_var(offset);
	return at->window[(offset & (2 * PROFD_CHAIN_WINDOW_BYTES - 1)) / 8];
}

static __always_inline __u32 profd_frame_half(const struct profd_interpreter *at, __u32 field)
{
	return (__u32)(profd_frame_word(at, field) >> (field & 4) * 8);
}

static __always_inline __u32 profd_frame_byte(const struct profd_interpreter *at, __u32 field)
{
	return (__u32)(profd_frame_word(at, field) >> (field & 7) * 8) & 0xff;
}

/* The same of the code object that was read last. */
static __always_inline __u64 profd_code_word(const struct profd_interpreter *at, __u32 field)
{
	__u64 offset = field;

	barrier_var(offset);
	return at->code[(offset & 255) / 8];
}

static __always_inline __u32 profd_code_half(const struct profd_interpreter *at, __u32 field)
{
	return (__u32)(profd_code_word(at, field) >> (field & 4) * 8);
}

/*
 * Appends a text of `count` code points, each of `width` bytes, cut off at `limit` bytes, which all
 * widths divide. False: it can't be read. At most 2047 bytes may precede it.
 */
static __always_inline bool profd_add_text(struct profd_interpreter *at, __u32 which, __u8 kind,
					   __u64 width, __u64 address, __u64 count, __u64 limit)
{
	__u64 used = at->text_used;
	__u64 bytes = (count > limit ? limit + 1 : count) * width;
	__u8 is_cut = bytes > limit;

	barrier_var(bytes);
	if (bytes > limit)
		bytes = limit;
	barrier_var(used);
	if (bytes && !profd_chain_read(at, at->texts + (used & 2047), (__u32)bytes, address))
		return false;
	at->text_used = (__u32)(used + bytes);
	at->announced.text_bytes[which] = (__u16)bytes;
	at->announced.text_kind[which] = kind;
	at->announced.cut = (__u8)(at->announced.cut | is_cut << which);
	return true;
}

/* Adds a frame. False: the limit is reached. With 64-bit numbers, of which Linux 6.1's verifier
 * keeps the bounds. */
static __always_inline bool profd_add_frame(struct profd_interpreter *at, __u64 id, __u64 code,
					    __u32 position)
{
	__u64 place = at->entry_count;

	barrier_var(place);
	if (place >= PROFD_MAX_INTERPRETED_ENTRIES ||
	    at->frame_count >= PROFD_MAX_INTERPRETED_FRAMES) {
		at->end = PROFD_CHAIN_FRAME_LIMIT;
		return false;
	}
	at->entries[place].value = id;
	at->entries[place].position = position;
	at->entries[place].kind = PROFD_ENTRY_FRAME;
	at->codes[place] = code;
	at->entry_count = (__u32)place + 1;
	at->frame_count++;
	return true;
}

/* Ends a segment. False: the limit is reached, or the anchor is not above the one before. An anchor
 * of 0 is none. */
static __always_inline bool profd_add_boundary(struct profd_interpreter *at, __u64 anchor)
{
	__u64 place = at->entry_count, number = at->segment_count;

	if (anchor && anchor <= at->last_anchor) {
		at->end = PROFD_CHAIN_DISORDERED;
		return false;
	}
	barrier_var(place);
	barrier_var(number);
	if (number >= PROFD_MAX_SEGMENTS || place >= PROFD_MAX_INTERPRETED_ENTRIES) {
		at->end = PROFD_CHAIN_FRAME_LIMIT;
		return false;
	}
	at->entries[place].value = anchor;
	at->entries[place].position = PROFD_NOT_MET;
	at->entries[place].kind = PROFD_ENTRY_BOUNDARY;
	at->codes[place] = 0;
	at->segments[number] = (__u16)place;
	at->last_anchor = anchor;
	at->entry_count = (__u32)place + 1;
	at->segment_count = (__u32)number + 1;
	return true;
}

#endif
