/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What the BPF programs and user space say to each other: records in the ring buffers, counters and
 * the filter.
 *
 * Included by BPF C (after vmlinux-like type definitions) and by C++. Fixed-size fields only, no
 * padding left to the compiler; every struct's size is asserted below. Little endian, x86-64. All
 * times are CLOCK_MONOTONIC nanoseconds but start_ns, which is the leader's start in boot time
 * (/proc/PID/stat, field 22, before its rounding).
 */
#ifndef PROFD_ABI_H
#define PROFD_ABI_H

#include <linux/types.h>

#define PROFD_MAX_SESSIONS 32
#define PROFD_MAX_EVENT_SETS 8
#define PROFD_CGROUPS_PER_SESSION 8
#define PROFD_MAX_USER_FRAMES 1024
#define PROFD_MAX_KERNEL_FRAMES 127
#define PROFD_MAX_NAME_BYTES 1024
#define PROFD_COMM_BYTES 16

enum profd_record_type {
	PROFD_RECORD_SAMPLE = 1,
	PROFD_RECORD_MAPPING = 2,
	PROFD_RECORD_PROCESS = 3,
	PROFD_RECORD_UNMAP = 4,
};

/* Starts every record. size counts the whole record with the words or bytes that follow its struct.
 */
struct profd_record_header {
	__u32 size;
	__u32 type;
};

/* Exact identity of a process image: neither a reused pid nor an exec can stand for another. tgid
 * is in profd's own PID namespace. */
struct profd_process_key {
	__u64 start_ns;
	__u32 tgid;
	__u32 exec_id;
};

/* A file as the kernel sees it; one overwritten in place keeps device, inode and generation. All 0:
 * no file. */
struct profd_file_key {
	__u64 inode;
	__u64 size;
	__s64 ctime_ns;
	__u32 device; /* the kernel's own encoding: major << 20 | minor */
	__u32 generation;
};

/* Where the tick hit. The last four have no user stack. */
enum profd_context {
	PROFD_CONTEXT_USER = 0,	   /* user mode */
	PROFD_CONTEXT_SYSCALL = 1, /* the kernel, called by the task */
	PROFD_CONTEXT_TRAP = 2,	   /* the kernel, by a fault or an interrupt of user mode */
	PROFD_CONTEXT_KTHREAD = 3, /* a kernel thread, or a kernel worker of a user process */
	PROFD_CONTEXT_EXIT = 4,	   /* a task on its way out */
	PROFD_CONTEXT_EXEC = 5,	   /* a task between two programs: its user registers are stale */
	PROFD_CONTEXT_COMPAT = 6,  /* a 32-bit task: its user stack is not unwound */
	PROFD_CONTEXT_COUNT,
};

/* Why the user stack ends where it does. */
enum profd_user_end {
	PROFD_END_NO_USER_STACK = 0,	/* see the context */
	PROFD_END_FP_ZERO = 1,		/* the frame-pointer chain ends with 0, as _start sets it */
	PROFD_END_NO_FRAME_POINTER = 2, /* the frame pointer does not lead up the stack */
	PROFD_END_PC_UNMAPPED = 3,	/* the next address lies in no mapping */
	PROFD_END_PC_NOT_EXECUTABLE = 4,
	PROFD_END_STACK_UNREADABLE = 5, /* stack memory was not present */
	PROFD_END_DEPTH_LIMIT = 6,	/* PROFD_MAX_USER_FRAMES reached */
	PROFD_END_MAPPING_RACE = 7,	/* the mapping tree changed under the walk */
	PROFD_END_ENTRY = 8,		/* the rows say that nothing called this frame: complete */
	PROFD_END_NO_ROW = 9,	 /* no rule for the address, and no frame pointer that leads up */
	PROFD_END_NO_TABLE = 10, /* no rows of the file can be had, and no frame pointer as above */
	PROFD_END_CFA_NOT_ABOVE = 11, /* the rule leads down the stack, or nowhere */
	PROFD_END_REGISTER_LOST = 12, /* the rule needs a register that this frame doesn't know */
	PROFD_END_DEFERRED = 13,   /* a file without a table yet: a profd_deferred_stack follows */
	PROFD_END_TABLE_LATE = 14, /* as before, but the table was not there in time, or the
				      ring had no room for the late stack */
	/* Only of user space, where a late stack was unwound on. */
	PROFD_END_WINDOW = 15, /* the stack goes on above the window that was sent */
	PROFD_END_COUNT,
};

/* How a user frame was found, in the top three bits of its word. */
enum profd_frame_how {
	PROFD_FRAME_INTERRUPTED = 0, /* the register: exact */
	PROFD_FRAME_SYSCALL =
		1, /* the register, after the syscall instruction: acts as a return address */
	PROFD_FRAME_POINTER = 2, /* by a frame-pointer step: a return address */
	PROFD_FRAME_ROW = 3,	 /* by an unwind row: a return address */
	PROFD_FRAME_SIGNAL = 4,	 /* by a signal frame: where the signal hit, exact */
	PROFD_FRAME_HOW_COUNT,
};

/* A user frame's word: address in bits 0-56, in 57-60 the index of its mapping in the sample's list
 * of mapping ids, in 61-63 profd_frame_how. */
#define PROFD_FRAME_ADDRESS_BITS 57
#define PROFD_FRAME_MAPPING_SHIFT 57
#define PROFD_FRAME_MAPPING_MASK 15
#define PROFD_FRAME_HOW_SHIFT 61
#define PROFD_NO_MAPPING 15 /* as an index: none, or the stack met more than 15 mappings */
#define PROFD_MAX_STACK_MAPPINGS 15

/* Whose the task is by ptrace's rule: these are all its ids, its image is dumpable, and it has no
 * capability and is in profd's user namespace. Told with each sample, since any tick may find it
 * changed. */
struct profd_owner {
	__u32 uid; /* PROFD_NO_OWNER: nobody's */
	__u32 gid;
};

#define PROFD_NO_OWNER 0xffffffffu

/* Followed by words of 8 bytes: kernel_frames addresses and user_frames frame words, both leaf
 * first, then mapping_count mapping ids; then, where deferred_words isn't 0 (user_end is
 * PROFD_END_DEFERRED), a profd_deferred_stack and the stack window behind it, deferred_words in
 * all. */
struct profd_sample {
	struct profd_record_header header;
	__u64 time_ns;
	__u64 period; /* of the event, in its own unit, as the kernel gives it for this tick */
	struct profd_process_key process;
	struct profd_owner owner;
	__u32 tid; /* in profd's PID namespace */
	__u32 cpu;
	__u32 sessions; /* bit mask of session slots */
	__u16 kernel_frames;
	__u16 user_frames;
	__u8 mapping_count;
	__u8 user_end; /* profd_user_end */
	__u8 context;  /* profd_context */
	__u8 event_set;
	__u8 kernel_truncated; /* 1: the kernel stack was cut at its limit */
	__u8 reserved;
	__u16 deferred_words;
};

#define PROFD_DEFERRED_WINDOW_BYTES 16384

/* Registers whose value a frame doesn't know, as bits. */
#define PROFD_LOST_BP 1u
#define PROFD_LOST_BX 2u

/* The rest of a stack whose last user frame lies in a file that has no table yet: that frame's
 * registers, and the stack around its sp and up as far as it could be read. The records of all
 * executable mappings of the process are in the ring before it. */
struct profd_deferred_stack {
	__u64 ip; /* of the last user frame */
	__u64 sp;
	__u64 bp;
	__u64 bx;
	__u64 registers[16]; /* by DWARF number, where the frame was interrupted; else 0 */
	__u64 window_start;  /* a multiple of 8: sp, less its red zone where it was interrupted */
	__u32 lost;	     /* PROFD_LOST_ bits: of bp and bx */
	__u32 signal_frames; /* passed so far, of PROFD_MAX_SIGNAL_FRAMES */
};

enum profd_mapping_kind {
	PROFD_MAPPING_FILE = 0,
	PROFD_MAPPING_ANONYMOUS = 1,
	PROFD_MAPPING_VDSO = 2,
};

/* Sent before the first sample of its CPU that names it. Its id stands for all its fields and the
 * process together, so another mapping at the same address has another id. Followed by name_bytes
 * bytes: the path's components, innermost first, each ended by NUL, up to profd's own root, or that
 * of the file's mount namespace (cut at PROFD_MAX_NAME_BYTES: then names_cut). */
struct profd_mapping {
	struct profd_record_header header;
	__u64 time_ns;
	struct profd_process_key process;
	__u64 id; /* never 0 */
	__u64 start;
	__u64 end;
	__u64 file_offset; /* bytes */
	struct profd_file_key file;
	__u32 kind;
	__u16 name_bytes;
	__u8 names_cut;
	__u8 on_fuse; /* 1: another process answers for the file, or never does */
};

/* Sent before the first sample of its CPU of a process image, and again when its comm changes.
 * Followed by cgroup_bytes bytes: the components of its cgroup v2 path, innermost first, each ended
 * by NUL. */
struct profd_process {
	struct profd_record_header header;
	__u64 time_ns;
	struct profd_process_key process;
	struct profd_file_key executable;
	__u64 cgroup_id;
	__u32 uid; /* real uid, in the initial user namespace */
	__u32 parent_tgid;
	char comm[PROFD_COMM_BYTES]; /* of the leader */
	__u8 kernel_thread;
	__u8 reserved;
	__u16 cgroup_bytes;
	__u32 reserved2;
};

/* Sent when a watched process begins to give up memory that overlaps its spans:
 * munmap(2), or mmap(2) of fresh memory over it. */
struct profd_unmap {
	struct profd_record_header header;
	__u64 time_ns; /* before anything else can lie there */
	struct profd_process_key process;
	__u64 start;
	__u64 end; /* of a page */
};

/* Every way in which the kernel side can lose a sample. */
enum profd_loss {
	PROFD_LOSS_RING_FULL = 0,
	PROFD_LOSS_RING_BUSY = 1, /* the ring's lock was held under the tick */
	PROFD_LOSS_NO_RING = 2,	  /* a CPU that came after profd started */
	PROFD_LOSS_SCRATCH = 3,	  /* per-CPU memory missing: does not happen */
	PROFD_LOSS_COUNT = 4,
};

/* Per CPU. taken = idle + filtered + sent + lost, no term computed from the others. */
struct profd_counters {
	__u64 taken;
	__u64 idle;
	__u64 filtered;		 /* matched no session; with outside_namespace */
	__u64 outside_namespace; /* of filtered: tasks that profd's PID namespace does not show */
	__u64 sent;
	__u64 lost[PROFD_LOSS_COUNT];
	__u64 mapping_records;
	__u64 mapping_records_lost; /* sent again by the next sample that needs them */
	__u64 process_records;
	__u64 process_records_lost;
	__u64 unmap_records;
	__u64 unmap_records_lost; /* over a process's rate, or for want of room */
	__u64 not_followed;	  /* children of targets that found the target map full */
	__u64 event_set_taken[PROFD_MAX_EVENT_SETS];
	__u64 session_taken[PROFD_MAX_SESSIONS];
	__u64 session_lost[PROFD_MAX_SESSIONS][PROFD_LOSS_COUNT];
};

/* A process that is a target: key is the tgid in the initial PID namespace, start_ns guards against
 * its reuse. */
struct profd_target {
	__u64 start_ns;
	__u32 sessions;
	__u32 follow;	 /* of sessions: those that children join at fork */
	__u32 from_exec; /* of sessions: those that begin when exec_id is no longer this one */
	__u32 exec_id;
	__u32 ended; /* 1: its last thread has called exit; ticks on the way out still match */
	__u32 reserved;
};

#define PROFD_MAX_WATCHED 4096
#define PROFD_WATCHED_SPANS 8
#define PROFD_UNMAPS_PER_SECOND 1000

struct profd_address_range {
	__u64 start;
	__u64 end; /* 0: none */
};

/* A process that is to be told of when it gives up memory in these spans, by profd_process_key. */
struct profd_watched {
	struct profd_address_range spans[PROFD_WATCHED_SPANS];
	__u64 second_ns; /* when the second began in which so many were told */
	__u64 told;
};

/* What profd_tasks tells of each process that profd's PID namespace shows. */
struct profd_task {
	__u64 start_ns;
	__u32 global_tgid; /* in the initial PID namespace: the target map's key */
	__u32 tgid;	   /* in profd's */
	__u32 parent_global_tgid;
	__u32 exec_id;
};

/* What profd_running tells of each executable mapping of a file. */
struct profd_running_code {
	struct profd_file_key file;
	__u64 start;
	__u64 end;
	__u64 file_offset; /* bytes */
	__u32 tgid;	   /* in profd's PID namespace */
	__u32 on_fuse;	   /* as in profd_mapping */
};

/* The key of a table (struct profd_table in unwind_rows.h). */
struct profd_table_key {
	struct profd_file_key file;
	__u32 piece; /* of the file: offset >> PROFD_PIECE_SHIFT */
	__u32 reserved;
};

/* Written by user space at any time, read by every tick; each field stands alone. */
struct profd_filter {
	__u32 live;	  /* slots in use: every mask below is cut by it */
	__u32 all;	  /* slots that want every process */
	__u32 by_process; /* slots with entries in the target map */
	__u32 by_comm;
	__u32 by_uid;
	__u32 by_cgroup;  /* slots with places in the cgroup array filled */
	__u32 restricted; /* slots that may see only what restrict_uid/gid may read (ptrace's rule)
			   */
	__u32 announcements; /* raised by user space: what was told once is told again */
	/* Raised when a table was added or taken away: what CPUs remember of tables is void. 0:
	 * nobody makes tables, so frame pointers only, and no stack is late. */
	__u32 tables;
	__u32 reserved;
	__u32 event_set[PROFD_MAX_EVENT_SETS]; /* slots by event set, the perf event's BPF cookie */
	__u32 restrict_uid[PROFD_MAX_SESSIONS];
	__u32 restrict_gid[PROFD_MAX_SESSIONS];
};

#ifdef __cplusplus
#define PROFD_ASSERT_SIZE(type, bytes)                                                             \
	static_assert(sizeof(type) == (bytes), #type " has another size")
#else
#define PROFD_ASSERT_SIZE(type, bytes)                                                             \
	_Static_assert(sizeof(type) == (bytes), #type " has another size")
#endif
PROFD_ASSERT_SIZE(struct profd_record_header, 8);
PROFD_ASSERT_SIZE(struct profd_process_key, 16);
PROFD_ASSERT_SIZE(struct profd_file_key, 32);
PROFD_ASSERT_SIZE(struct profd_owner, 8);
PROFD_ASSERT_SIZE(struct profd_sample, 72);
PROFD_ASSERT_SIZE(struct profd_deferred_stack, 176);
PROFD_ASSERT_SIZE(struct profd_table_key, 40);
PROFD_ASSERT_SIZE(struct profd_mapping, 104);
PROFD_ASSERT_SIZE(struct profd_process, 104);
PROFD_ASSERT_SIZE(struct profd_unmap, 48);
PROFD_ASSERT_SIZE(struct profd_target, 32);
PROFD_ASSERT_SIZE(struct profd_watched, 144);
PROFD_ASSERT_SIZE(struct profd_task, 24);
PROFD_ASSERT_SIZE(struct profd_running_code, 64);

#endif
