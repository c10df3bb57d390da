/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The interface between the BPF programs and user space: records in the ring buffers, counters and
 * the filter.
 *
 * Included by BPF C (after vmlinux-like type definitions) and by C++. Fixed-size fields only, no
 * implicit padding; every struct's size is asserted below. Little endian, x86-64. All times are
 * CLOCK_MONOTONIC nanoseconds, except start_ns: the start of the thread group's leader in boot time
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
	/* Of threads that are off their CPU: block_abi.h. */
	PROFD_RECORD_BLOCK = 5,
	PROFD_RECORD_BLOCK_END = 6,
	PROFD_RECORD_WHOLE_BLOCK = 7,
	/* Of interpreted code: interpreter_abi.h. */
	PROFD_RECORD_INTERPRETED_STACK = 8,
	PROFD_RECORD_INTERPRETED_CODE = 9,
};

/* Starts every record. size includes the words or bytes that follow the record's struct. */
struct profd_record_header {
	__u32 size;
	__u32 type;
};

/* Exact identity of a process image: it changes when a pid is reused and at each exec. tgid is in
 * profd's own PID namespace. */
struct profd_process_key {
	__u64 start_ns;
	__u32 tgid;
	__u32 exec_id;
};

/* The identity of a file. A file that is overwritten in place keeps device, inode and generation,
 * so size and ctime are part of it. All 0: no file. */
struct profd_file_key {
	__u64 inode;
	__u64 size;
	__s64 ctime_ns;
	__u32 device; /* in the kernel's encoding: major << 20 | minor */
	__u32 generation;
};

/* What the task was executing at the tick. The last four have no user stack. */
enum profd_context {
	PROFD_CONTEXT_USER = 0,	   /* user mode */
	PROFD_CONTEXT_SYSCALL = 1, /* the kernel, in a system call */
	PROFD_CONTEXT_TRAP = 2,	   /* the kernel, in a fault or an interrupt of user mode */
	PROFD_CONTEXT_KTHREAD = 3, /* a kernel thread, or a kernel worker of a user process */
	PROFD_CONTEXT_EXIT = 4,	   /* a task that is exiting */
	PROFD_CONTEXT_EXEC = 5,	   /* a task in exec: its user registers are stale */
	PROFD_CONTEXT_COMPAT = 6,  /* a 32-bit task: its user stack is not unwound */
	PROFD_CONTEXT_COUNT,
};

/* Why the walk of the user stack ended. */
enum profd_user_end {
	PROFD_END_NO_USER_STACK = 0,	/* see the context */
	PROFD_END_FP_ZERO = 1,		/* frame pointer 0, as _start sets it */
	PROFD_END_NO_FRAME_POINTER = 2, /* the frame pointer does not point up the stack */
	PROFD_END_PC_UNMAPPED = 3,	/* the next address is in no mapping */
	PROFD_END_PC_NOT_EXECUTABLE = 4,
	PROFD_END_STACK_UNREADABLE = 5, /* stack memory was not present */
	PROFD_END_DEPTH_LIMIT = 6,	/* PROFD_MAX_USER_FRAMES reached */
	PROFD_END_MAPPING_RACE = 7,	/* the mapping tree changed during the walk */
	/* The row marks the outermost frame, so the stack is complete. User space also counts a
	 * stack as complete whose last frame lies in the program's entry function. */
	PROFD_END_ENTRY = 8,
	PROFD_END_NO_ROW = 9,	      /* no row for the address, and no usable frame pointer */
	PROFD_END_NO_TABLE = 10,      /* the file has no table, and no usable frame pointer */
	PROFD_END_CFA_NOT_ABOVE = 11, /* the rule does not lead up the stack */
	PROFD_END_REGISTER_LOST = 12, /* the rule needs a register whose value is unknown */
	PROFD_END_DEFERRED = 13, /* the file has no table yet: a profd_deferred_stack follows */
	/* The table was not ready in time, the ring had no room for the deferred stack, or user
	 * space did not have the record of the mapping. */
	PROFD_END_TABLE_LATE = 14,
	/* Set by user space only: the deferred stack continues above the window that was sent. */
	PROFD_END_WINDOW = 15,
	PROFD_END_MAPPING_CHANGES = 16, /* PROFD_MAX_SPAN_SEARCHES mappings were searched */
	/* Set by user space only: the stack was left out, as its user had too many. */
	PROFD_END_OVER_SHARE = 17,
	/* Of a block only (block_abi.h), set by user space: its stack was not taken, or it began
	 * before the session did. At most its innermost frame is known. */
	PROFD_END_NOT_TAKEN = 18,
	PROFD_END_BEFORE_START = 19,
	PROFD_END_COUNT,
};

/* How a user frame's address was found: the top three bits of the frame's word. */
enum profd_frame_how {
	PROFD_FRAME_INTERRUPTED = 0, /* register ip: the exact instruction */
	PROFD_FRAME_SYSCALL = 1,     /* register ip, behind the syscall instruction */
	PROFD_FRAME_POINTER = 2,     /* a frame pointer: a return address */
	PROFD_FRAME_ROW = 3,	     /* an unwind row: a return address */
	PROFD_FRAME_SIGNAL = 4,	     /* a signal frame: the exact instruction */
	PROFD_FRAME_HOW_COUNT,
	/* Set by user space only: no native frame (collectors/bpf/sample.h, InterpretedFrame). */
	PROFD_FRAME_INTERPRETED = 5,
};

/* The word of a user frame: its address in bits 0-56, the index of its mapping in the sample's list
 * of mapping ids in bits 57-60, profd_frame_how in bits 61-63. */
#define PROFD_FRAME_ADDRESS_MASK ((1ULL << 57) - 1)
#define PROFD_FRAME_MAPPING_SHIFT 57
#define PROFD_FRAME_MAPPING_MASK 15
#define PROFD_FRAME_HOW_SHIFT 61
#define PROFD_NO_MAPPING 15 /* as an index: no mapping, or the list was full */
#define PROFD_MAX_STACK_MAPPINGS 15

/* What of the stack's interpreted frames was sent, in a record of its own (interpreter_abi.h). */
enum profd_interpreted {
	PROFD_INTERPRETED_NONE = 0, /* no file of the stack's frames has a known interpreter */
	PROFD_INTERPRETED_SENT = 1,
	PROFD_INTERPRETED_LOST = 2, /* there were some, or may have been: profd_counters says why */
	PROFD_INTERPRETED_COUNT,
};

/* The user who may ptrace the task: all its uids and gids are these, its image is dumpable, and it
 * has no capability and is in profd's user namespace. Part of each sample, since it can change at
 * any time. */
struct profd_owner {
	__u32 uid; /* PROFD_NO_OWNER: only root may */
	__u32 gid;
};

#define PROFD_NO_OWNER 0xffffffffu

/* Followed by words of 8 bytes: kernel_frames addresses and user_frames frame words, both leaf
 * first, and mapping_count mapping ids. If user_end is PROFD_END_DEFERRED, another deferred_words
 * words follow: a profd_deferred_stack and a copy of stack memory. */
struct profd_sample {
	struct profd_record_header header;
	__u64 time_ns;
	__u64 period; /* in the event's unit, as the kernel reports it for this tick */
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
	__u8 kernel_truncated; /* 1: the kernel stack reached its limit */
	__u8 interpreted;      /* profd_interpreted */
	__u16 deferred_words;
	char thread[PROFD_COMM_BYTES]; /* the thread's name; NUL fills the rest */
};

#define PROFD_DEFERRED_WINDOW_BYTES 16384

/* Bits for registers whose value is unknown in a frame. */
#define PROFD_LOST_BP 1u
#define PROFD_LOST_BX 2u

/* What user space needs to continue a walk whose last user frame lies in a file without a table:
 * the registers of that frame, and stack memory from its sp up as far as it could be read. Records
 * of the process's executable mappings precede it in the ring: of all, or of about the first 512
 * (deferred.h) where the process has more. */
struct profd_deferred_stack {
	__u64 ip; /* of the last user frame */
	__u64 sp;
	__u64 bp;
	__u64 bx;
	__u64 registers[16]; /* by DWARF number, of an interrupted frame; otherwise 0 */
	__u64 window_start; /* a multiple of 8: sp, minus what can be read of an interrupted frame's
			       red zone */
	__u32 lost;	    /* PROFD_LOST_ bits */
	__u32 signal_frames; /* passed so far; at most PROFD_MAX_SIGNAL_FRAMES */
};

enum profd_mapping_kind {
	PROFD_MAPPING_FILE = 0,
	PROFD_MAPPING_ANONYMOUS = 1,
	PROFD_MAPPING_VDSO = 2,
};

/* Sent before the first sample of the same CPU that refers to it. The id is a hash of the process
 * and all other fields, so another mapping at the same address has another id. Followed by
 * name_bytes bytes: the components of the path, innermost first, each ended by NUL, up to profd's
 * own root or the root of the file's mount namespace. names_cut: PROFD_MAX_NAME_BYTES was reached
 * before that. */
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
	__u8 on_fuse; /* 1: a process serves the file's reads, and may block them forever */
};

/* Sent before the first sample of a process image on each CPU, and again when its comm changes; a
 * record that has no room in the ring is sent at a later tick. Until the first one arrives, user
 * space knows of the process only the key in its samples, which is no other's; until a later one
 * arrives, it has the former comm. Followed by cgroup_bytes bytes: the components of its cgroup v2
 * path, innermost first, each ended by NUL. */
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

/* Sent when a watched process is about to unmap memory that overlaps its watched spans, by
 * munmap(2) or by mmap(2) of new memory over it. */
struct profd_unmap {
	struct profd_record_header header;
	__u64 time_ns; /* of the call's start: earlier than any new use of the memory */
	struct profd_process_key process;
	__u64 start;
	__u64 end; /* page-aligned */
};

/* Every reason for which the kernel side can lose a sample. */
enum profd_loss {
	PROFD_LOSS_RING_FULL = 0,
	PROFD_LOSS_RING_BUSY = 1, /* the tick interrupted a holder of the ring's lock */
	PROFD_LOSS_NO_RING = 2,	  /* the CPU was added after profd started */
	PROFD_LOSS_SCRATCH = 3,	  /* no per-CPU memory: does not happen */
	/* Only sessions of unprivileged users wanted the sample, and their half of the ring was
	 * full. */
	PROFD_LOSS_RING_SHARE = 4,
	PROFD_LOSS_COUNT = 5,
};

/* What became of the stacks with interpreted frames, and of the announcements of their code. The
 * terms of a stack are exclusive: STACKS = SENT + the four behind it. The others are not. */
enum profd_interpreter_count {
	PROFD_INTERPRETED_STACKS = 0, /* that met the code of a known interpreter */
	PROFD_INTERPRETED_STACKS_SENT = 1,
	PROFD_INTERPRETED_NO_THREAD_STATE = 2, /* the thread runs no interpreted code */
	PROFD_INTERPRETED_STATE_MISMATCH = 3,  /* what stands there is no state of this thread */
	PROFD_INTERPRETED_UNREADABLE_STATE = 4,
	PROFD_INTERPRETED_NO_ROOM = 5, /* in the ring, or in users' half of it */
	PROFD_INTERPRETED_FRAMES = 6,
	PROFD_INTERPRETED_FRAME_LIMIT = 7, /* this one and the next three: profd_chain_end */
	PROFD_INTERPRETED_UNREADABLE = 8,
	PROFD_INTERPRETED_NOT_CODE = 9,
	PROFD_INTERPRETED_DISORDERED = 10,
	PROFD_INTERPRETED_CODES_SENT = 11,
	/* The next sample with such code tries again. */
	PROFD_INTERPRETED_CODES_RATE = 12, /* over the budget of the tick, CPU, users or process */
	PROFD_INTERPRETED_CODES_NO_ROOM = 13,
	PROFD_INTERPRETED_NAME_ABSENT = 14, /* a name or file that could not be read */
	PROFD_INTERPRETED_NAME_CUT = 15,
	PROFD_INTERPRETER_COUNTS = 16,
};

/* Per CPU. taken = idle + filtered + sent + lost, and no term is computed from the others. */
struct profd_counters {
	__u64 taken;
	__u64 idle;
	__u64 filtered;		 /* matched no session; includes outside_namespace */
	__u64 outside_namespace; /* tasks that are not visible in profd's PID namespace */
	__u64 sent;
	__u64 lost[PROFD_LOSS_COUNT];
	__u64 mapping_records;
	/* The next sample that needs one of these sends it again. */
	__u64 mapping_records_lost;    /* no room in the ring, or in users' half of it */
	__u64 mapping_records_limited; /* over what their user may cost (credit.h) */
	__u64 process_records;
	__u64 process_records_lost; /* likewise; the next tick of the process sends it again */
	__u64 unmap_records;
	__u64 unmap_records_lost; /* over the rate of a process, or no room in the ring */
	__u64 not_followed;	  /* children of targets: no room in the target map (targets.h) */
	__u64 event_set_taken[PROFD_MAX_EVENT_SETS];
	__u64 session_taken[PROFD_MAX_SESSIONS];
	__u64 session_lost[PROFD_MAX_SESSIONS][PROFD_LOSS_COUNT];
	__u64 interpreted[PROFD_INTERPRETER_COUNTS]; /* by profd_interpreter_count */
};

/* Of all sessions by pids, of those of all unprivileged users together, and of those of one of
 * these. */
#define PROFD_MAX_TARGETS 32768
#define PROFD_MAX_TARGETS_OF_USERS (PROFD_MAX_TARGETS / 2)
#define PROFD_MAX_TARGETS_OF_USER (PROFD_MAX_TARGETS / 8)

/* The key of the target map: a process and a session by pids. */
struct profd_target_key {
	__u32 tgid; /* in the initial PID namespace */
	__u32 slot;
};

struct profd_target {
	__u64 start_ns;	 /* detects reuse of the tgid */
	__u64 ended_ns;	 /* when the last thread called exit, or 0; its ticks still match */
	__u32 exec_id;	 /* when the process became a target */
	__u32 from_exec; /* 1: its samples begin when exec_id changes */
	__u32 account;	 /* the entry counts for it; never changes */
	__u32 reserved;
};

/* Account 0 is that of all privileged callers, each other one that of an unprivileged user with a
 * session. */
#define PROFD_TARGET_ACCOUNTS (PROFD_MAX_SESSIONS + 1)

/* The numbers of entries in the target map. User space and the programs add to them atomically:
 * before an entry is added, and when its removal has succeeded. */
struct profd_target_counts {
	__s32 of_account[PROFD_TARGET_ACCOUNTS];
	__s32 of_users; /* of all accounts but 0 */
};

#define PROFD_MAX_WATCHED 4096
#define PROFD_WATCHED_SPANS 8
#define PROFD_UNMAPS_PER_SECOND 1000

struct profd_address_range {
	__u64 start;
	__u64 end; /* 0: unused */
};

/* A process whose unmapping of memory in these spans is reported, keyed by profd_process_key. */
struct profd_watched {
	struct profd_address_range spans[PROFD_WATCHED_SPANS];
	__u64 second_ns; /* the start of the second that `reported` counts */
	__u64 reported;
};

/* What the iterator profd_tasks writes for each process in profd's PID namespace. */
struct profd_task {
	__u64 start_ns;
	__u32 global_tgid; /* in the initial PID namespace: the target map's key */
	__u32 tgid;	   /* in profd's PID namespace */
	__u32 parent_global_tgid;
	__u32 exec_id;
};

/* What the iterator profd_running writes for each executable mapping of a file. */
struct profd_running_code {
	struct profd_file_key file;
	__u64 start;
	__u64 end;
	__u64 file_offset; /* bytes */
	__u32 tgid;	   /* in profd's PID namespace */
	__u32 on_fuse;	   /* as in profd_mapping */
};

/* The kernel's limit is 256 functions, and its buffer holds 32 KiB per program. */
#define PROFD_MAX_FUNCTIONS_OF_PROGRAM 256

/* What the iterator profd_bpf_functions writes for each function of a BPF program. */
struct profd_bpf_function {
	__u64 start;
	__u64 end;
	char name[96]; /* as in kallsyms: "bpf_prog_TAG_NAME", a longer one without its end */
};

/* The key of a struct profd_table (unwind_rows.h). */
struct profd_table_key {
	struct profd_file_key file;
	__u32 region; /* file offset >> PROFD_FILE_REGION_SHIFT */
	__u32 reserved;
};

/* Written by user space at any time and read by every tick; no field depends on another. */
struct profd_filter {
	__u32 live;	  /* slots in use; the masks below count only within it */
	__u32 all;	  /* slots that sample every process */
	__u32 by_process; /* slots with entries in the target map */
	__u32 follow;	  /* of these, slots that a forked child of a target joins */
	__u32 by_comm;
	__u32 by_uid;
	__u32 by_cgroup;     /* slots with entries in the cgroup array */
	__u32 of_users;	     /* slots of unprivileged callers */
	__u32 restricted;    /* slots that see only processes of the owner restrict_uid/gid */
	__u32 announcements; /* raised by user space: all records are sent again */
	/* Raised when a table was added or removed: invalidates what CPUs cached of tables. 0:
	 * there are no tables, so frame pointers are followed and no stack is deferred. */
	__u32 table_generation;
	__u32 blocked;	/* slots that sample blocks; a slot of `wall` has an event set too */
	__u32 runnable; /* slots that sample the waits of runnable threads */
	/* Raised when a slot's criteria or its targets change, after the change: what was matched
	 * before is matched again. Threads keep their match of a second, at most, otherwise. */
	__u32 match_generation;
	__u32 event_set[PROFD_MAX_EVENT_SETS]; /* slots by event set, the perf event's BPF cookie */
	__u32 restrict_uid[PROFD_MAX_SESSIONS];
	__u32 restrict_gid[PROFD_MAX_SESSIONS];
	__u32 account[PROFD_MAX_SESSIONS]; /* for which the slot's targets count */
	/* When the slot's session began, written before it is live. A block that began earlier was
	 * of another session, if the slot was used before: it does not count for this one. */
	__u64 began_ns[PROFD_MAX_SESSIONS];
	/* Since when the slot's blocks are counted, which is later: until then, its threads are
	 * watched one after the other. PROFD_NOT_YET_NS: not yet. */
	__u64 counted_from_ns[PROFD_MAX_SESSIONS];
	__u64 all_counted_ns; /* not before any of these: so most blocks need no look at them */
};

#define PROFD_NOT_YET_NS (1ULL << 62)

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
PROFD_ASSERT_SIZE(struct profd_sample, 88);
PROFD_ASSERT_SIZE(struct profd_deferred_stack, 176);
PROFD_ASSERT_SIZE(struct profd_table_key, 40);
PROFD_ASSERT_SIZE(struct profd_mapping, 104);
PROFD_ASSERT_SIZE(struct profd_process, 104);
PROFD_ASSERT_SIZE(struct profd_unmap, 48);
PROFD_ASSERT_SIZE(struct profd_target_key, 8);
PROFD_ASSERT_SIZE(struct profd_target, 32);
PROFD_ASSERT_SIZE(struct profd_target_counts, 136);
PROFD_ASSERT_SIZE(struct profd_watched, 144);
PROFD_ASSERT_SIZE(struct profd_task, 24);
PROFD_ASSERT_SIZE(struct profd_running_code, 64);
PROFD_ASSERT_SIZE(struct profd_bpf_function, 112);

#endif
