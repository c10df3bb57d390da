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
 *     __u64 profd_clock_ns(void);
 *         The time now.
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
 *         its name or its file, if it has one, can't be read.
 */
#ifndef PROFD_INTERPRETER_STATE_H
#define PROFD_INTERPRETER_STATE_H

#include "bpf/interpreter_abi.h"
#include "bpf/python_abi.h"

#ifndef barrier_var
#define barrier_var(var) __asm__ volatile("" : "+r"(var))
#endif

#define PROFD_CHAIN_PAGE_BYTES 4096
/* Frames of one stack often lie close together, and a read of 1 KiB costs little more than one of
 * 80 bytes: as much where an interpreter has a stack of frames. Frames that are objects of the heap
 * lie close together in deep recursion alone, larger and more of them: there it is the page. */
#define PROFD_CHAIN_WINDOW_BYTES PROFD_CHAIN_PAGE_BYTES
#define PROFD_NEAR_WINDOW_BYTES 1024

/* Of the walk of one tick, without announcements. A stack of 46 frames takes 5 us, and one of
 * PROFD_MAX_INTERPRETED_FRAMES about this time. How long a read takes is up to the process, so a
 * number of reads alone would be too small for honest stacks, or too large for forged ones. An
 * object may set its own before it includes this header. */
#ifndef PROFD_MAX_CHAIN_NS
#define PROFD_MAX_CHAIN_NS 50000
/* Of its announcements, and what the walk left of its own time: 55 us for both, and what the last
 * code object takes longer. */
#define PROFD_MAX_CODES_NS 5000
#define PROFD_MAX_CODES_OF_TICK 32
#define PROFD_MAX_CODE_BYTES_OF_TICK 16384
#endif
/* In any case. Announcements have as many for each of theirs. */
#define PROFD_MAX_CHAIN_READS 1024
/* The clock takes 20 ns: it is asked at one of so many reads. A power of two. */
#define PROFD_READS_OF_CLOCK 8
/* The most that these are charged. So many reads seldom take longer: what does is mostly an
 * interrupt, or a hypervisor that took the CPU away, which must not cut an honest stack. */
#define PROFD_MAX_CHARGE_NS (PROFD_MAX_CHAIN_NS / 4)
/* Of one tick. A read that faults costs 0.8 us: it ends the chain, or the description of a code
 * object. */
#define PROFD_MAX_FAILED_READS 6

/* Frames of one stack that have the same code: a frame holds a reference, so its code can't be
 * replaced during a tick. */
#define PROFD_CODE_MEMO 32

/* Code objects of one stack that were not announced, of which the tick can announce some. */
#define PROFD_MAX_NEW_CODES 32

/* The results of a begin. */
enum profd_begin {
	PROFD_BEGIN_DONE = 0,
	PROFD_BEGIN_NO_THREAD_STATE = 1,
	PROFD_BEGIN_MISMATCH = 2,
	PROFD_BEGIN_UNREADABLE = 3,
	PROFD_BEGIN_NO_RUNTIME = 4, /* of the bones alone: user space has removed it */
};

struct profd_code_memo {
	__u64 code;  /* 0: empty */
	__u64 id;    /* 0: its frames are not shown */
	__u32 units; /* of bytecode, 0: unknown; PHP: the type of the function */
	__u32 reserved;
};

struct profd_new_code {
	__u64 code; /* its address */
	__u64 id;
};

/* In profd_interpreter.window, in bytes: behind the window of frames a place for a frame that lies
 * elsewhere, and then the window of the native stack. */
#define PROFD_APART_AT PROFD_CHAIN_WINDOW_BYTES
#define PROFD_STACK_AT (PROFD_APART_AT + PROFD_PYTHON_MAX_FRAME_BYTES)

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
	__u32 is_first_thread; /* of the process: set by the bones */
	__u32 reserved;
	__u64 leaf_ip; /* offset in the file */
	__u64 leaf_sp;
	__u64 leaf_cfa; /* above leaf_sp; where the native walk ended, a guess */

	/* The chain. */
	__u64 frame;  /* the next one; 0: none */
	__u64 cframe; /* of the current segment; 0: none */
	/* Where the frames behind the first boundary begin, if that is in doubt: they are those of
	 * the next native loop if its frame has this address too. 0: it is not, or was seen there.
	 */
	__u64 doubtful;
	__u64 last_anchor;
	__u32 end; /* profd_chain_end */
	__u32 entry_count;
	__u32 frame_count;
	__u32 segment_count;
	__u32 reads;
	__u32 failed_reads;
	__u32 unannounced; /* code objects that were not announced: the first of them in new_codes
			    */
	__u32 met;	   /* segments whose anchor the native walk has passed */
	__u32 place;	   /* in `window`, of the frame that was read last: bytes */
	__u32 text_used;   /* bytes of `texts` */
	__u32 codes_tried; /* code objects that the tick has described */
	__u32 code_bytes;  /* and the bytes of those that were sent */

	__u64 left_ns;	    /* of the time that reads may take */
	__u64 clock_ns;	    /* when the clock was asked last */
	__u64 codes_ns;	    /* how long the announcements may take */
	__u64 codes_end_ns; /* when no more code objects are described */

	/* The frames' memory: window_start is the address of the window's first byte, window_low
	 * that of the first byte that was read (all bits set: nothing was). */
	__u64 window_start;
	__u64 window_low;
	__u64 last_read; /* address of the frame that was read last; 0: none was */
	/* The same of the native stack: so many bytes from this address on. */
	__u64 stack_start;
	__u64 stack_bytes;
	/* The start of a code object; in the upper half, that of a text. */
	__u64 code[2 * 256 / 8];

	struct profd_code_memo memo[PROFD_CODE_MEMO];
	__u16 segments[PROFD_MAX_SEGMENTS];		      /* their boundaries, in `entries` */
	struct profd_new_code new_codes[PROFD_MAX_NEW_CODES]; /* leaf first */

	/* The record. */
	struct profd_interpreted_stack stack;
	struct profd_interpreted_entry entries[PROFD_MAX_INTERPRETED_ENTRIES];

	/* What is announced now: a record. Behind the limit there is room for one whole text. It
	 * comes after the walk, which has its windows there. */
	struct profd_interpreted_code announced;
	union {
		char texts[PROFD_MAX_CODE_TEXT_BYTES + PROFD_MAX_CODE_LINES_BYTES / 8];
		__u64 window[(PROFD_STACK_AT + PROFD_CHAIN_PAGE_BYTES) / 8];
	};
};

/* To be used by the interpreters' headers alone. */

/* Charges the time since the clock was asked last. False: none is left. */
static __always_inline bool profd_charge_time(struct profd_interpreter *at)
{
	__u64 now = profd_clock_ns();
	__u64 took = now - at->clock_ns;

	if (took > PROFD_MAX_CHARGE_NS)
		took = PROFD_MAX_CHARGE_NS;
	at->clock_ns = now;
	if (took >= at->left_ns) {
		at->left_ns = 0;
		return false;
	}
	at->left_ns -= took;
	return true;
}

/* Whether the limits of the tick leave one more read, which is counted. */
static __always_inline bool profd_may_read(struct profd_interpreter *at)
{
	if (at->reads >= PROFD_MAX_CHAIN_READS || at->failed_reads >= PROFD_MAX_FAILED_READS)
		return false;
	at->reads++;
	if (!(at->reads & (PROFD_READS_OF_CLOCK - 1)) && !profd_charge_time(at)) {
		at->reads = PROFD_MAX_CHAIN_READS; /* none is left */
		return false;
	}
	return true;
}

/* As profd_read_user(), behind profd_may_read(). */
static __always_inline bool profd_read_counted(struct profd_interpreter *at, void *to, __u32 bytes,
					       __u64 address)
{
	if (profd_read_user(to, bytes, address))
		return true;
	at->failed_reads++;
	return false;
}

/* As profd_read_user(), within the limits of the tick. */
static __always_inline bool profd_chain_read(struct profd_interpreter *at, void *to, __u32 bytes,
					     __u64 address)
{
	return profd_may_read(at) && profd_read_counted(at, to, bytes, address);
}

/* Notes that the chain ends since profd_chain_read() returned false. */
static __always_inline void profd_end_unread(struct profd_interpreter *at)
{
	at->end = at->reads >= PROFD_MAX_CHAIN_READS ? PROFD_CHAIN_FRAME_LIMIT
						     : PROFD_CHAIN_UNREADABLE;
}

/* Reads a frame to the place behind the window. */
static __always_inline bool profd_read_apart(struct profd_interpreter *at, __u64 frame, __u64 bytes)
{
	if (!profd_chain_read(at, &at->window[PROFD_APART_AT / 8],
			      (__u32)(bytes & (PROFD_PYTHON_MAX_FRAME_BYTES - 1)), frame))
		return false;
	at->place = PROFD_APART_AT;
	return true;
}

/* Reads the window that ends with a frame, of at most so many bytes: callers lie below it. Not
 * beyond the frame's page, as the one before may belong to somebody else, or be missing. */
static __always_inline bool profd_read_chain_window(struct profd_interpreter *at, __u64 frame,
						    __u64 bytes, __u64 limit)
{
	__u64 start = frame + bytes - PROFD_CHAIN_WINDOW_BYTES;
	__u64 page = frame & ~(PROFD_CHAIN_PAGE_BYTES - 1ULL);
	__u64 gap = page > start ? page - start : 0;

	if (gap < PROFD_CHAIN_WINDOW_BYTES - limit)
		gap = PROFD_CHAIN_WINDOW_BYTES - limit;
	barrier_var(gap);
	gap &= PROFD_CHAIN_WINDOW_BYTES - 1;
	at->window_low = ~0ULL;
	if (!profd_chain_read(at, (char *)at->window + gap, (__u32)(PROFD_CHAIN_WINDOW_BYTES - gap),
			      start + gap))
		return false;
	at->window_start = start;
	at->window_low = start + gap;
	at->place = (__u32)(frame - start);
	return true;
}

/*
 * Reads `frame_bytes` of a frame, unless it is in the window. False: the chain ends. `has_stack`:
 * the frames of this interpreter lie in one growing stack, a caller below its callee.
 */
static __always_inline bool profd_load_frame(struct profd_interpreter *at, __u64 frame,
					     __u64 frame_bytes, bool has_stack)
{
	/* Never 0 but for a malformed layout; whole words, so that the window begins at one. */
	__u64 bytes = (frame_bytes + 7) & (PROFD_PYTHON_MAX_FRAME_BYTES - 8);
	__u64 callee = at->last_read;
	bool is_near = callee ? callee - frame < PROFD_CHAIN_PAGE_BYTES : has_stack;
	bool was_read;

	if (frame % 8) {
		at->end = PROFD_CHAIN_NOT_CODE;
		return false;
	}
	at->last_read = frame;
	if (frame >= at->window_low &&
	    frame - at->window_start <= PROFD_CHAIN_WINDOW_BYTES - bytes) {
		at->place = (__u32)(frame - at->window_start);
		return true;
	}
	if (is_near)
		was_read = profd_read_chain_window(at, frame, bytes,
						   has_stack ? PROFD_NEAR_WINDOW_BYTES
							     : PROFD_CHAIN_WINDOW_BYTES);
	else
		was_read = profd_read_apart(at, frame, bytes);
	if (!was_read)
		profd_end_unread(at);
	return was_read;
}

/* Reads a word of the native stack, with the rest of its page: what belongs to the callers of its
 * frame lies above. */
static __always_inline bool profd_read_stack(struct profd_interpreter *at, __u64 address,
					     __u64 *word)
{
	__u64 place = address - at->stack_start;
	__u64 bytes = PROFD_CHAIN_PAGE_BYTES - (address & (PROFD_CHAIN_PAGE_BYTES - 1));

	if (address % 8)
		return profd_chain_read(at, word, sizeof(*word), address);
	if (place >= at->stack_bytes) {
		at->stack_bytes = 0;
		barrier_var(bytes);
		if (bytes > PROFD_CHAIN_PAGE_BYTES)
			bytes = PROFD_CHAIN_PAGE_BYTES; /* never true; a bound for the verifier */
		if (!profd_chain_read(at, &at->window[PROFD_STACK_AT / 8], (__u32)bytes, address))
			return false;
		at->stack_start = address;
		at->stack_bytes = bytes;
		place = 0;
	}
	barrier_var(place);
	*word = at->window[PROFD_STACK_AT / 8 + (place & (PROFD_CHAIN_PAGE_BYTES - 1)) / 8];
	return true;
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

/* Where in `code` the start of a text is read to: behind the code object. */
#define PROFD_TEXT_AT 32

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

	if (bytes && !profd_may_read(at))
		return false;
	/* Behind all calls: what clang saves to the stack before has no bound for Linux 6.1. */
	barrier_var(bytes);
	if (bytes > limit)
		bytes = limit;
	barrier_var(used);
	if (bytes && !profd_read_counted(at, at->texts + (used & 2047), (__u32)bytes, address))
		return false;
	at->text_used = (__u32)(used + bytes);
	at->announced.text_bytes[which] = (__u16)bytes;
	at->announced.text_kind[which] = kind;
	at->announced.cut = (__u8)(at->announced.cut | is_cut << which);
	return true;
}

/* Where a code object is remembered. */
static __always_inline struct profd_code_memo *profd_memo_of(struct profd_interpreter *at,
							     __u64 code)
{
	return &at->memo[(code >> 5 ^ code >> 10) & (PROFD_CODE_MEMO - 1)];
}

/* Notes a code object of a frame, which the tick may announce. */
static __always_inline void profd_note_code(struct profd_interpreter *at, __u64 code, __u64 id)
{
	__u64 place = at->unannounced;

	if (profd_was_announced(id))
		return;
	at->unannounced++;
	barrier_var(place);
	if (place >= PROFD_MAX_NEW_CODES)
		return;
	at->new_codes[place].code = code;
	at->new_codes[place].id = id;
}

/* Adds a frame. False: the limit is reached. With 64-bit numbers, of which Linux 6.1's verifier
 * keeps the bounds. */
static __always_inline bool profd_add_frame(struct profd_interpreter *at, __u64 id, __u32 position)
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
	at->segments[number] = (__u16)place;
	at->last_anchor = anchor;
	at->entry_count = (__u32)place + 1;
	at->segment_count = (__u32)number + 1;
	return true;
}

/* The native walk has met the loop of the next segment, from sp up to its CFA. */
static __always_inline void profd_resolve_doubt(struct profd_interpreter *at, __u64 sp, __u64 cfa)
{
	if (at->met == 1 && at->doubtful - sp < cfa - sp)
		at->doubtful = 0;
}

/* Drops all behind the first boundary where the native walk has not shown that it belongs there. */
static __always_inline void profd_drop_doubtful(struct profd_interpreter *at)
{
	if (!at->doubtful || !at->frame_count)
		return;
	at->entry_count = 1;
	at->segment_count = 1;
	at->frame_count = 0;
	at->unannounced = 0;
	at->end = PROFD_CHAIN_NOT_CODE;
}

#endif
