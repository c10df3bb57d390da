/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The interface between the programs of switch.bpf.c and user space, beside profd_abi.h.
 *
 * A block is one time that a thread is off its CPU: from the switch away from it to the switch back
 * to it, so it includes the wait for a CPU after the wakeup. Times are CLOCK_MONOTONIC nanoseconds.
 * The stack of a block is that of its start; its duration is known at its end. So a block is two
 * records, which may lie in the rings of two CPUs: user space joins them by the block's id.
 */
#ifndef PROFD_BLOCK_ABI_H
#define PROFD_BLOCK_ABI_H

#include "bpf/profd_abi.h"

/* Why a thread is off its CPU, by the tracepoint's own prev_state and preempt: the state in the
 * task may have changed since. */
enum profd_block_state {
	PROFD_BLOCK_NONE = 0,	  /* none: a tick, or a thread that ends */
	PROFD_BLOCK_SLEEPING = 1, /* S: a signal ends it */
	PROFD_BLOCK_DISK = 2,	  /* D: uninterruptible or killable; not idle kernel threads */
	PROFD_BLOCK_STOPPED = 3,  /* by a signal or a debugger */
	PROFD_BLOCK_RUNNABLE = 4, /* preempted, or its slice ended: it waits for a CPU only */
	PROFD_BLOCK_STATE_COUNT,
};

/* The start of a block that was chosen, with its stack. Followed by a whole record of type
 * PROFD_RECORD_SAMPLE, deferred words included, whose time_ns is the start of the block, whose
 * period is 1 and whose event_set is 0. A deferred stack has the records of about the first 64
 * executable mappings only, where the process has more. */
struct profd_block {
	struct profd_record_header header; /* PROFD_RECORD_BLOCK; size includes the sample */
	__u64 id;     /* CPU << 48 | a number of that CPU; never 0, never used again */
	__u32 chance; /* of 2^32, with which the block was chosen; 0: it was certain */
	__u32 state;  /* profd_block_state, never PROFD_BLOCK_NONE */
	/* Of the thread's blocks since its last one that was sent: short ones that were not chosen.
	 */
	__u64 unsampled;
	__u64 unsampled_ns;
};

/* The end of a block of which a struct profd_block, or a struct profd_whole_block with
 * PROFD_BLOCK_OPEN, was sent. It may arrive before that one, also seconds before: the stack of a
 * block may wait for an unwind table. */
struct profd_block_end {
	struct profd_record_header header; /* PROFD_RECORD_BLOCK_END */
	__u64 id;
	__u64 end_ns;
};

/* profd_whole_block.flags */
#define PROFD_BLOCK_OPEN 1	  /* it goes on: end_ns is now, and an end with its id follows */
#define PROFD_BLOCK_FROM_BEFORE 2 /* it began before the thread was watched: start_ns is then */
#define PROFD_BLOCK_WAS_CHOSEN 4  /* a struct profd_block of it was sent: only its id counts */

/*
 * A block without user stack, followed by kernel_frames addresses, the leaf first, which begin
 * behind the scheduler. Sent through the ring (PROFD_RECORD_WHOLE_BLOCK) at the end of a block that
 * was not chosen, or whose start had no room, and that lasted at least profd_block_rate.long_ns;
 * and written by the iterator profd_open_blocks for each watched thread that is in a block now.
 */
struct profd_whole_block {
	struct profd_record_header header;
	__u64 id; /* with PROFD_BLOCK_OPEN: of its end; otherwise 0 */
	__u64 start_ns;
	__u64 end_ns;
	struct profd_process_key process;
	struct profd_owner owner;
	__u64 user_ip; /* 0: the thread has no user mode */
	__u32 tid;     /* in profd's PID namespace */
	__u32 sessions;
	__u16 kernel_frames;
	__u16 call;   /* number of the system call that blocks; PROFD_NO_CALL: none */
	__u8 state;   /* profd_block_state */
	__u8 context; /* profd_context */
	__u8 flags;
	__u8 reserved;
	char thread[PROFD_COMM_BYTES];
};

#define PROFD_NO_CALL 0xffff

struct profd_block_term {
	__u64 count;
	__u64 ns;
};

/*
 * Per CPU and session, counted at the end of each block on the CPU where it ends.
 *     blocked = sampled + long_unsampled + short_unsampled + lost
 * in both members, and no term is computed from the others. Blocks that are open are in none, and
 * of others only the part since profd_filter.counted_from_ns.
 */
struct profd_block_counters {
	struct profd_block_term blocked;
	struct profd_block_term sampled;	 /* chosen, and sent */
	struct profd_block_term long_unsampled;	 /* a profd_whole_block was sent */
	struct profd_block_term short_unsampled; /* neither: sampled ones stand for them */
	/* No room: for the start of a short block, or for the profd_whole_block of a long one. */
	struct profd_block_term lost[PROFD_LOSS_COUNT];
};

/* Per CPU, of all sessions. */
struct profd_switch_counters {
	__u64 walks;
	__u64 walks_by_chance; /* of these, without a token */
	__u64 ends_lost;       /* an end that was not sent at the thread's next switch either */
	__u64 threads_watched; /* storages that were made */
	__u64 threads_refused; /* no memory for one */
	struct profd_block_counters of_session[PROFD_MAX_SESSIONS];
};

/* Written by user space at any time and read at every switch; no field depends on another. */
struct profd_block_rate {
	__u64 long_ns;		/* T: blocks of this duration are never lost */
	__u32 scale;		/* block_choice.h */
	__u32 walks_per_second; /* of each CPU: so many blocks are chosen for certain */
	__u32 burst;
	__u32 new_sites_per_second; /* of each CPU, besides: at a site new to the thread */
};

#define PROFD_BLOCK_LONG_NS 10000000
#define PROFD_WALKS_PER_SECOND 2000
#define PROFD_WALK_BURST 200
#define PROFD_NEW_SITES_PER_SECOND 250

/* While windows of the history alone want blocks. With those by chance, which are half of those by
 * token (walk_rate.h), 100 walks a second. */
#define PROFD_WINDOW_BLOCK_LONG_NS 100000000
#define PROFD_WINDOW_WALKS_PER_SECOND 64
#define PROFD_WINDOW_WALK_BURST 20
#define PROFD_WINDOW_NEW_SITES_PER_SECOND 4

PROFD_ASSERT_SIZE(struct profd_block, 40);
PROFD_ASSERT_SIZE(struct profd_block_end, 24);
PROFD_ASSERT_SIZE(struct profd_whole_block, 96);
PROFD_ASSERT_SIZE(struct profd_block_counters, 144);
PROFD_ASSERT_SIZE(struct profd_switch_counters, 4648);
PROFD_ASSERT_SIZE(struct profd_block_rate, 24);

#endif
