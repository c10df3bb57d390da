/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Unwind rows: for each code address of a file, the rule that computes the registers of the caller
 * from those of the frame. User space makes them from .eh_frame and .debug_frame. The sampling
 * program looks them up, and so does user space when it unwinds a deferred stack.
 *
 * Rows are keyed by file offset, so they are valid wherever the file is mapped. A file is divided
 * into file regions of 16 MiB, each with its own table. A table is contained in one arena, a large
 * array that user space fills by mmap: bucket_count + 1 bucket starts, then the rows. A bucket is
 * 1 KiB of code; its rows are [its start, the next bucket's start), sorted. A row is valid from its
 * offset up to that of the next row. So an address before the first row of its bucket belongs to
 * the row before that; the first row of a table is a sentinel, so that there always is one.
 *
 * A row is 4 bytes: 10 bits of offset within its bucket, 22 bits of rule. Rules that don't fit in
 * 22 bits are in one dictionary for all files.
 */
#ifndef PROFD_UNWIND_ROWS_H
#define PROFD_UNWIND_ROWS_H

#include <linux/types.h>

#define PROFD_FILE_REGION_SHIFT 24
#define PROFD_BUCKET_SHIFT 10
#define PROFD_BUCKETS_PER_FILE_REGION (1u << (PROFD_FILE_REGION_SHIFT - PROFD_BUCKET_SHIFT))
#define PROFD_ARENA_WORDS                                                                          \
	(1u << 20) /* 4 MiB: the largest value that all kernels since 6.1 accept */
#define PROFD_MAX_ARENAS 128
#define PROFD_MAX_RULES 16384

#define PROFD_ROW_OFFSET_MASK ((1u << PROFD_BUCKET_SHIFT) - 1)
#define PROFD_ROW_RULE_SHIFT PROFD_BUCKET_SHIFT

/*
 * The rule of a row. With PROFD_RULE_IN_DICTIONARY, the other bits are an index in the dictionary.
 * Otherwise the CFA is rsp, or rbp with PROFD_RULE_CFA_RBP, plus 8 times bits 10-19; the return
 * address is at CFA - 8; rbp is at CFA - 8 * bits 0-4, rbx at CFA - 8 * bits 5-9; 0: unchanged.
 */
#define PROFD_RULE_BITS 22
#define PROFD_RULE_IN_DICTIONARY (1u << 21)
#define PROFD_RULE_CFA_RBP (1u << 20)
#define PROFD_RULE_CFA_SHIFT 10
#define PROFD_RULE_CFA_MASK 1023u
#define PROFD_RULE_RBX_SHIFT 5
#define PROFD_RULE_SLOT_MASK 31u

enum profd_rule_kind {
	/* There is no row, or a rule can't express it: use the frame pointer. */
	PROFD_RULE_UNKNOWN = 0,
	/* The return address is undefined: the entry function of a program or thread. */
	PROFD_RULE_END = 1,
	/* CFA = cfa_register + cfa_offset */
	PROFD_RULE_REGISTER = 2,
	/* CFA = *(cfa_register + 8 * cfa_index's register + cfa_offset) + cfa_add */
	PROFD_RULE_DEREF = 3,
	/* CFA = rsp + 8, or rsp + 16 if the low 4 bits of ip are >= cfa_add */
	PROFD_RULE_PLT = 4,
	/* The kernel's struct sigcontext, with all registers, is at rsp + cfa_offset. */
	PROFD_RULE_SIGNAL = 5,
	PROFD_RULE_KIND_COUNT,
};

/* Where the caller's value of a callee-saved register, or the return address, is. */
enum profd_saved {
	PROFD_SAVED_NOT = 0,	  /* unchanged */
	PROFD_SAVED_AT_CFA = 1,	  /* at CFA + offset */
	PROFD_SAVED_REGISTER = 2, /* in the register with the DWARF number `offset` */
	PROFD_SAVED_LOST = 3,	  /* undefined, or a rule can't express it */
	/* At cfa_register + offset; for PROFD_RULE_DEREF only. */
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
 * An entry of the dictionary. rsp, rbp and rbx are known in every frame, the other registers only
 * in an interrupted frame (the leaf, and the frame below a signal frame).
 */
struct profd_rule {
	__s32 cfa_offset;
	__s32 cfa_add;
	__s32 ra_offset;
	__s32 rbp_offset;
	__s32 rbx_offset;
	__u8 kind;	   /* profd_rule_kind */
	__u8 cfa_register; /* DWARF number */
	__u8 ra_saved;	   /* PROFD_SAVED_AT_CFA or PROFD_SAVED_REGISTER */
	__u8 rbp_saved;	   /* profd_saved */
	__u8 rbx_saved;	   /* profd_saved */
	__u8 cfa_index;	   /* for PROFD_RULE_DEREF: 1 + DWARF number; 0: none */
	__u8 reserved[6];
};

/*
 * The step from a frame to its caller, in the kernel and for deferred stacks.
 *
 * An interrupted frame (the leaf, and the frame below a signal frame) is looked up by its own
 * address, any other frame by the address before, since a call can be the last instruction of its
 * function. The CFA must be above sp, and no register slot may be below sp, or below the red zone
 * of an interrupted frame. So every step leads up the stack, and every walk ends. Only a signal
 * frame may lead to any other stack, and at most PROFD_MAX_SIGNAL_FRAMES of them are followed.
 *
 * For an unknown rule, and in a file without rows, the step uses the frame pointer; rows are used
 * again for the next frame.
 */
#define PROFD_NOT_ENDED 0 /* instead of a profd_user_end: the walk goes on */
#define PROFD_RED_ZONE_BYTES 128
#define PROFD_MAX_SIGNAL_FRAMES 8

/* The kernel's struct sigcontext begins with these registers, by DWARF number (r8 to r15, rdi, rsi,
 * rbp, rbx, rdx, rax, rcx, rsp), then ip. */
#define PROFD_SIGCONTEXT_REGISTERS                                                                 \
	{                                                                                          \
		8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7                               \
	}
#define PROFD_SIGCONTEXT_IP 16
#define PROFD_SIGCONTEXT_WORDS 17

/* The vDSO is not a file. Its rows are keyed by a file key of zeros and this inode, and by the
 * offset from its start. */
#define PROFD_VDSO_INODE 1

/*
 * JIT code is not in a file either. If its runtime provides rows, they are keyed by a file key with
 * this inode, the start of the process as size, the upper half of the address as ctime, the tgid as
 * device and the exec id as generation; the lower half of the address is the offset. So the key
 * stands for an area of 4 GiB. No file has such a ctime.
 */
#define PROFD_JIT_CODE_INODE 2
#define PROFD_JIT_AREA_SHIFT 32
#define PROFD_FILE_REGIONS_PER_JIT_AREA (1u << (PROFD_JIT_AREA_SHIFT - PROFD_FILE_REGION_SHIFT))

/* The first entries of the dictionary are fixed. */
#define PROFD_RULE_INDEX_UNKNOWN 0u
#define PROFD_RULE_INDEX_END 1u
#define PROFD_RULE_FIRST_FREE 2u

enum profd_table_state {
	PROFD_TABLE_READY = 1,
	PROFD_TABLE_NONE = 2, /* no rows, or none that can be read: use frame pointers */
};

/* The table of a file region; its key is struct profd_table_key. Arena word buckets_at + b is the
 * start of bucket b: the index of the arena word with its first row. */
struct profd_table {
	__u64 used_ns; /* the last use; the programs update it when they cache a span */
	__u32 number;  /* unique, 1 to PROFD_MAX_TABLE_NUMBER */
	__u32 arena;
	__u32 buckets_at;
	__u32 first_bucket; /* offset in the file region >> PROFD_BUCKET_SHIFT */
	__u32 bucket_count; /* the rule of addresses outside is PROFD_RULE_UNKNOWN */
	__u16 state;	    /* profd_table_state */
	__u16 runtime; /* the interpreter in the file, by number (interpreter_abi.h); 0: none */
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
