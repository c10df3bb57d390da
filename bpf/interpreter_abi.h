/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The interface between the BPF programs and user space for interpreted code, beside profd_abi.h.
 *
 * A file that has an interpreter is recognised when its unwind table is made, by its content alone.
 * What the programs must know of it is a struct profd_runtime; what they must know of the memory of
 * its version is a struct profd_layout, whose fields only the header of that interpreter knows
 * (python_abi.h). A stack that meets code of such a file has the interpreter's own frames read too,
 * and these are a record of their own, in front of the sample.
 *
 * A segment is a row of interpreted frames that one activation of the interpreter's loop runs. Its
 * anchor is the address of a struct that this activation has on the native stack: the native frame
 * with sp <= anchor < CFA is the loop. So an anchor ties a segment to its native frame, whatever
 * the code of the loop is.
 */
#ifndef PROFD_INTERPRETER_ABI_H
#define PROFD_INTERPRETER_ABI_H

#include "bpf/profd_abi.h"

enum profd_runtime_kind {
	PROFD_RUNTIME_NONE = 0,
	PROFD_RUNTIME_PYTHON = 1,
	PROFD_RUNTIME_PHP = 2,
	PROFD_RUNTIME_KIND_COUNT,
};

/* Where a thread's state is found. `where` and `add` are slot and slot_add of a profd_runtime. */
enum profd_slot_form {
	PROFD_SLOT_NONE = 0,
	PROFD_SLOT_KEY = 1,	    /* a pthread key: 4 bytes at the address `where` */
	PROFD_SLOT_TLS = 2,	    /* the word at fsbase + where */
	PROFD_SLOT_DYNAMIC_TLS = 3, /* the word at dtv[module] + offset + add, {module, offset}
				       being two words at the address `where` (the relocated GOT) */
	PROFD_SLOT_GLOBAL = 4,	    /* the word at the address `where`: one for the process */
	PROFD_SLOT_FORM_COUNT,
};

/* Whose pthread keys and dtv they are. */
enum profd_libc {
	PROFD_LIBC_GLIBC = 0,
	PROFD_LIBC_MUSL = 1, /* since 1.2 */
	PROFD_LIBC_MUSL_OLD = 2,
	PROFD_LIBC_COUNT,
};

/* A part of the file with code of the interpreter's loop: offsets in the file. */
struct profd_loop_part {
	__u32 start;
	__u32 bytes; /* 0: none */
};

#define PROFD_LOOP_PARTS 2
#define PROFD_SLOTS 2
#define PROFD_MAX_RUNTIMES 256 /* numbers are 1 to 255 */
#define PROFD_MAX_LAYOUTS 32   /* likewise 1 to 31 */

/* An interpreter in a file; the map profd_runtimes has them by number. All addresses are those of
 * the file; in a process they are higher by the start of the mapping - file_offset + bias. */
struct profd_runtime {
	__u64 bias;	 /* p_offset - p_vaddr of the executable PT_LOAD; wraps around */
	__u64 code_type; /* of the object whose address is the type of all code objects; 0: none */
	/* The first slot is asked first: where it has no value, the second one. `where` is an
	 * address as in the file (vaddr), or with PROFD_SLOT_TLS an offset. */
	__s64 slot[PROFD_SLOTS];
	struct profd_loop_part loop[PROFD_LOOP_PARTS];
	__s16 slot_add[PROFD_SLOTS];
	__u8 slot_form[PROFD_SLOTS]; /* profd_slot_form */
	__u8 kind;   /* profd_runtime_kind; PROFD_RUNTIME_NONE: the entry is unused */
	__u8 layout; /* a number in profd_layouts */
	__u8 libc;   /* profd_libc */
	/* How much of the loop's start is behind its entry alone, where the layout has a prologue.
	 * 0: it is unknown. */
	__u8 prologue;
	__u8 reserved[6];
};

/* The layout of one version. What its bytes mean, the interpreter's own header says. */
#define PROFD_LAYOUT_BYTES 96
struct profd_layout {
	__u64 words[PROFD_LAYOUT_BYTES / 8];
};

/* Limits of one stack: those of the leaf stay. Before CPython 3.11, each frame is a segment. */
#define PROFD_MAX_INTERPRETED_FRAMES 512
#define PROFD_MAX_SEGMENTS 512
#define PROFD_MAX_INTERPRETED_ENTRIES 1024 /* frames and boundaries */

enum profd_interpreted_entry_kind {
	PROFD_ENTRY_FRAME = 0,
	PROFD_ENTRY_BOUNDARY = 1, /* the end of a segment, behind its frames; there may be none */
	PROFD_ENTRY_KIND_COUNT,
};

/* The position of a frame that is not known. */
#define PROFD_NO_POSITION 0xffffffffu
/* Of a boundary: the walk of the native stack did not meet the anchor. */
#define PROFD_NOT_MET 0xffffffffu

struct profd_interpreted_entry {
	__u64 value; /* of a frame: the id of its code, never 0; of a boundary: the anchor, 0: the
			interpreter has none, and the loop is known by its code (profd_loop_part) */
	__u32 position; /* of a frame: Python: index of the 2-byte code unit, PHP: the line; of a
			   boundary: index of the native frame among the sample's user frames */
	__u32 kind;	/* profd_interpreted_entry_kind */
};

/* Why the chain of interpreted frames ended. */
enum profd_chain_end {
	PROFD_CHAIN_COMPLETE = 0, /* at the first frame of the thread, or of its greenlet */
	PROFD_CHAIN_FRAME_LIMIT =
		1, /* PROFD_MAX_INTERPRETED_FRAMES, _SEGMENTS, or time of one tick */
	PROFD_CHAIN_UNREADABLE = 2, /* memory that is not there */
	PROFD_CHAIN_NOT_CODE = 3,   /* a frame whose code is none, or has no such position */
	PROFD_CHAIN_DISORDERED = 4, /* an anchor that is not above the one before */
	PROFD_CHAIN_END_COUNT,
};

/* The interpreted frames of a sample, leaf first, in front of it in the same ring: the sample has
 * the same cpu, time_ns and process, and `interpreted` is PROFD_INTERPRETED_SENT. Between both, the
 * other object's records may lie. Followed by `entries` entries. */
struct profd_interpreted_stack {
	struct profd_record_header header; /* PROFD_RECORD_INTERPRETED_STACK */
	__u64 time_ns;
	struct profd_process_key process;
	__u32 cpu;
	__u16 entries; /* 1 to PROFD_MAX_INTERPRETED_ENTRIES */
	__u8 kind;     /* profd_runtime_kind */
	__u8 layout;
	__u8 end;      /* profd_chain_end */
	__u8 of_block; /* 1: of a block (block_abi.h), 0: of a tick */
	__u8 reserved[6];
};

/* The bytes of a code point of a text, as its runtime has it. */
enum profd_text_kind {
	PROFD_TEXT_ABSENT = 0,
	PROFD_TEXT_LATIN_1 = 1, /* or ASCII */
	PROFD_TEXT_UCS_2 = 2,
	PROFD_TEXT_UCS_4 = 4,
	PROFD_TEXT_BYTES = 8, /* any bytes, which should be UTF-8 */
};

enum profd_code_text {
	PROFD_CODE_NAME = 0,
	PROFD_CODE_QUALIFIER = 1, /* Python: the qualified name; PHP: the class */
	PROFD_CODE_FILE = 2,
	PROFD_CODE_LINES = 3, /* the line table, as the runtime has it; kind PROFD_TEXT_BYTES */
	PROFD_CODE_TEXTS = 4,
};

#define PROFD_MAX_CODE_NAME_BYTES 256 /* of the name, and of the qualifier */
#define PROFD_MAX_CODE_FILE_BYTES 512
#define PROFD_MAX_CODE_LINES_BYTES 8192
#define PROFD_MAX_CODE_TEXT_BYTES                                                                  \
	(2 * PROFD_MAX_CODE_NAME_BYTES + PROFD_MAX_CODE_FILE_BYTES + PROFD_MAX_CODE_LINES_BYTES)

/*
 * A code object, when it is met for the first time. Its id is a keyed hash of the process, its
 * address and what later objects there have otherwise; it stands for this process alone. Order
 * between the rings is no matter. Followed by the texts, one after the other, without padding, raw:
 * any bytes that the process has there. A name or file that could not be read is not sent at all,
 * and tried again at a later sample; lines may be absent.
 */
struct profd_interpreted_code {
	struct profd_record_header header; /* PROFD_RECORD_INTERPRETED_CODE */
	__u64 time_ns;
	struct profd_process_key process;
	__u64 id; /* never 0 */
	__u64 address;
	__u32 first_line;
	__u32 units;			    /* Python: 2-byte units of bytecode; PHP: 0 */
	__u16 text_bytes[PROFD_CODE_TEXTS]; /* each a multiple of its kind, but for kind 8 */
	__u8 text_kind[PROFD_CODE_TEXTS];   /* profd_text_kind */
	__u8 kind;			    /* profd_runtime_kind */
	__u8 layout;
	__u8 cut; /* bit i: text i is longer than its limit */
	__u8 reserved;
};

/*
 * Which ids were announced, of all CPUs together: the map profd_code_tags has one such value. A set
 * of four tags is looked through; a tag is set once its record was sent, with plain stores, as two
 * CPUs that send the same record do no harm. User space sets one to 0 to have the code announced
 * again, where it forgot it or never got it.
 */
#define PROFD_CODE_SETS 16384
#define PROFD_CODE_WAYS 4
struct profd_code_tags {
	__u32 tags[PROFD_CODE_SETS * PROFD_CODE_WAYS];
};

static inline __u32 profd_code_set(__u64 id)
{
	return (__u32)(id >> 16) & (PROFD_CODE_SETS - 1);
}

/* Never 0. */
static inline __u32 profd_code_tag(__u64 id)
{
	return (__u32)(id >> 32) | 1;
}

PROFD_ASSERT_SIZE(struct profd_runtime, 64);
PROFD_ASSERT_SIZE(struct profd_layout, 96);
PROFD_ASSERT_SIZE(struct profd_interpreted_entry, 16);
PROFD_ASSERT_SIZE(struct profd_interpreted_stack, 48);
PROFD_ASSERT_SIZE(struct profd_interpreted_code, 72);

#endif
