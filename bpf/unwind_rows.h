/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Unwind rows: for each place of a file's code, how to get from a frame's registers to its
 * caller's. Made in user space from .eh_frame and .debug_frame, looked up by the sampling program,
 * and by user space where a stack is unwound late.
 *
 * Everything is keyed by file offset, so a row means the same wherever the file is mapped. A file's
 * code is cut into pieces of 16 MiB of file offset, each with a table of its own; a table lies
 * whole in one arena (a big array that user space fills by mmap): bucket_count + 1 bucket starts,
 * then its rows. A bucket is 1 KiB of code; its rows are [start of it, start of the next), sorted.
 * A row holds from its offset to the next row's, so an address before its bucket's first row
 * belongs to the row before, which the table's first row, a sentinel, makes sure of.
 *
 * A row is 4 bytes: 10 bits of offset within its bucket, 22 bits of rule. Rules that don't fit are
 * in one dictionary for all files.
 */
#ifndef PROFD_UNWIND_ROWS_H
#define PROFD_UNWIND_ROWS_H

#include <linux/types.h>

#define PROFD_PIECE_SHIFT 24
#define PROFD_BUCKET_SHIFT 10
#define PROFD_BUCKETS_PER_PIECE (1u << (PROFD_PIECE_SHIFT - PROFD_BUCKET_SHIFT))
#define PROFD_ARENA_WORDS                                                                          \
	(1u << 20) /* 4 MiB: the largest value that every kernel since 6.1 takes */
#define PROFD_MAX_ARENAS 128
#define PROFD_MAX_RULES 16384

#define PROFD_ROW_OFFSET_MASK ((1u << PROFD_BUCKET_SHIFT) - 1)
#define PROFD_ROW_RULE_SHIFT PROFD_BUCKET_SHIFT

/*
 * A rule in a row. With PROFD_RULE_IN_DICTIONARY, the other bits are an index there. Without: the
 * CFA is rsp, or rbp with PROFD_RULE_CFA_RBP, plus 8 times bits 10-19; the return address lies at
 * CFA - 8; rbp lies at CFA - 8 * bits 0-4, rbx at CFA - 8 * bits 5-9, where 0 is unchanged.
 */
#define PROFD_RULE_BITS 22
#define PROFD_RULE_IN_DICTIONARY (1u << 21)
#define PROFD_RULE_CFA_RBP (1u << 20)
#define PROFD_RULE_CFA_SHIFT 10
#define PROFD_RULE_CFA_MASK 1023u
#define PROFD_RULE_RBX_SHIFT 5
#define PROFD_RULE_SLOT_MASK 31u

enum profd_rule_kind {
	PROFD_RULE_UNKNOWN =
		0,	    /* no row, or one that can't be told in a rule: try the frame pointer */
	PROFD_RULE_END = 1, /* the return address is undefined: the program's or thread's entry */
	PROFD_RULE_REGISTER = 2, /* CFA = cfa_register + cfa_offset */
	/* CFA = *(cfa_register + 8 * cfa_index's register + cfa_offset) + cfa_add */
	PROFD_RULE_DEREF = 3,
	PROFD_RULE_PLT =
		4, /* CFA = rsp + 8, and 8 more where the low 4 bits of ip are >= cfa_add */
	PROFD_RULE_SIGNAL =
		5, /* rsp + cfa_offset is the kernel's struct sigcontext with all registers */
	PROFD_RULE_KIND_COUNT,
};

/* How a callee-saved register, or the return address, is got back. */
enum profd_saved {
	PROFD_SAVED_NOT = 0,	  /* unchanged */
	PROFD_SAVED_AT_CFA = 1,	  /* at CFA + offset */
	PROFD_SAVED_REGISTER = 2, /* in the register with the DWARF number `offset` */
	PROFD_SAVED_LOST = 3,	  /* undefined, or beyond what a rule can tell */
	/* At cfa_register + offset: of PROFD_RULE_DEREF, whose CFA is no constant away. */
	PROFD_SAVED_AT_REGISTER = 4,
	PROFD_SAVED_COUNT,
};

/* DWARF register numbers of x86-64. */
enum profd_dwarf_register {
	PROFD_DWARF_RAX = 0,
	PROFD_DWARF_RBX = 3,
	PROFD_DWARF_RBP = 6,
	PROFD_DWARF_RSP = 7,
	PROFD_DWARF_REGISTERS = 16,
};

/*
 * An entry of the dictionary. rsp, rbp and rbx are known in every frame; the other registers only
 * in one that was interrupted (the leaf, and the one below a signal frame).
 */
struct profd_rule {
	__s32 cfa_offset;
	__s32 cfa_add;
	__s32 ra_offset;
	__s32 rbp_offset;
	__s32 rbx_offset;
	__u8 kind;	   /* profd_rule_kind */
	__u8 cfa_register; /* DWARF number */
	__u8 ra_saved;	   /* profd_saved, of AT_CFA and REGISTER */
	__u8 rbp_saved;	   /* profd_saved */
	__u8 rbx_saved;	   /* profd_saved */
	__u8 cfa_index;	   /* of PROFD_RULE_DEREF: 1 + DWARF number; 0: none */
	__u8 reserved[6];
};

/*
 * How a frame is taken to its caller, here and where a stack is unwound late.
 *
 * A frame that was interrupted (the leaf, and the one below a signal frame) is looked up by its own
 * address, any other by the one before, since a call may be its function's last instruction. The
 * CFA must be above sp, and no slot below it, but for the red zone of an interrupted frame: so
 * stacks go up and every walk ends. Only a signal frame may lead anywhere, to the stack that the
 * signal left, and only PROFD_MAX_SIGNAL_FRAMES of them are followed.
 *
 * An unknown rule, and a file without rows, is left by one step of the frame pointer, and then rows
 * are tried again.
 */
#define PROFD_RED_ZONE_BYTES 128
#define PROFD_MAX_SIGNAL_FRAMES 8

/* Of the kernel's struct sigcontext, which SIGNAL rules lead to: words, in this order by DWARF
 * number (r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp), and then ip. */
#define PROFD_SIGCONTEXT_REGISTERS                                                                 \
	{                                                                                          \
		8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7                               \
	}
#define PROFD_SIGCONTEXT_IP 16
#define PROFD_SIGCONTEXT_WORDS 17

/* The vDSO is no file; its rows are found under a key that is 0 but for this inode, by the offset
 * from its start. */
#define PROFD_VDSO_INODE 1

/*
 * Code that a process made at run time lies in no file either. Its rows, if its runtime tells of
 * some, are found under a key that is this inode, the process's start for the size, the upper half
 * of the address for the change time, its tgid for the device and its exec id for the generation;
 * the lower half of the address is the offset. No file has such a change time.
 */
#define PROFD_JIT_CODE_INODE 2
#define PROFD_JIT_CODE_REGION_SHIFT 32
#define PROFD_JIT_CODE_PIECES (1u << (PROFD_JIT_CODE_REGION_SHIFT - PROFD_PIECE_SHIFT))

/* The dictionary's first entries are these, whatever file is loaded. */
#define PROFD_RULE_INDEX_UNKNOWN 0u
#define PROFD_RULE_INDEX_END 1u
#define PROFD_RULE_FIRST_FREE 2u

/* Key of a piece's table: the file's key and offset >> PROFD_PIECE_SHIFT. struct profd_file_key is
 * in profd_abi.h. */
enum profd_table_state {
	PROFD_TABLE_READY = 1,
	PROFD_TABLE_NONE =
		2, /* the file has no rows here, or none that can be read: frame pointers */
};

/* What the kernel side knows of a piece. Bucket b's start is arena word buckets_at + b, and is
 * itself the arena word of its first row. */
struct profd_table {
	__u64 used_ns; /* written by the programs now and then: for eviction */
	__u32 number;  /* 1 to PROFD_MAX_TABLE_NUMBER; another table has another one */
	__u32 arena;
	__u32 buckets_at;
	__u32 first_bucket; /* of the piece: offset within it >> PROFD_BUCKET_SHIFT */
	__u32 bucket_count; /* addresses outside are PROFD_RULE_UNKNOWN */
	__u32 state;	    /* profd_table_state */
};
#define PROFD_MAX_TABLES 8192
#define PROFD_TABLE_NUMBER_BITS 18
#define PROFD_MAX_TABLE_NUMBER ((1u << PROFD_TABLE_NUMBER_BITS) - 1)

static inline __u32 profd_row_offset(__u32 row)
{
	return row & PROFD_ROW_OFFSET_MASK;
}

static inline __u32 profd_row_rule(__u32 row)
{
	return row >> PROFD_ROW_RULE_SHIFT;
}

#ifdef __cplusplus
static_assert(sizeof(profd_rule) == 32, "profd_rule has another size");
static_assert(sizeof(profd_table) == 32, "profd_table has another size");
#else
_Static_assert(sizeof(struct profd_rule) == 32, "profd_rule has another size");
_Static_assert(sizeof(struct profd_table) == 32, "profd_table has another size");
#endif

#endif
