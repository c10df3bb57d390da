/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Which blocks are sampled: pure functions, for the programs and for tests that simulate them.
 *
 * The choice is made at a block's start, with a chance that depends only on what is known then. So
 * each chosen block that stands for 1 / chance blocks makes every sum unbiased, whatever the
 * chance is (Horvitz and Thompson). What the rules improve is the spread, and the bound of walks:
 *
 * 1. While the CPU has tokens, a block takes one and is certain.
 * 2. Else, a block at a site that is none of the last two of its thread takes a token for new
 *    sites: rare waits get their stack.
 * 3. Else the chance grows with how long the thread's blocks last: long ones make most of the time.
 *    It is at least PROFD_MIN_CHANCE.
 *
 * Integers only: BPF has no other numbers. A chance is a part of 2^32.
 */
#ifndef PROFD_BLOCK_CHOICE_H
#define PROFD_BLOCK_CHOICE_H

#include "bpf/block_abi.h"

#define PROFD_MIN_CHANCE (1U << 22) /* 1/1024 */
#define PROFD_CERTAIN 0		    /* as a chance */

/* A token bucket. All 0: it is full at its first use. */
struct profd_tokens {
	__u64 filled_ns;
	__u64 millitokens;
};

/* Of one CPU. Users' threads may take the last half of the tokens only from shares of their own:
 * so the switches of one user can't use all walks. */
struct profd_walk_tokens {
	struct profd_tokens all;
	struct profd_tokens new_sites;
	struct profd_tokens of_users;	  /* half of walks_per_second */
	struct profd_tokens of_user[64]; /* by uid % 64: an eighth of it each */
};

/* What a thread's earlier blocks say of its next one. */
struct profd_block_history {
	__u32 mean_ns;	/* moving average, an eighth of each new one; at most 2^32 - 1 */
	__u32 peak_ns;	/* the longest, halved at each block */
	__u32 sites[2]; /* hashes of {user ip, orig_ax}, the latest first */
};

/*
 * The part of the kernel side defines here, each `static __always_inline`, without helper calls:
 *
 * Whether a token is there, which it takes. `per_second` and `burst` are in tokens.
 *   bool profd_take_token(struct profd_tokens *tokens, __u32 per_second, __u32 burst, __u64 now_ns)
 *
 * The chance of a block at `site` that starts now: rules 1 to 3. `uid` 0: root's. `scale` is the
 * chance for each 1,024 ns of the larger of mean_ns and peak_ns. Updates the tokens and the sites.
 *   __u32 profd_choose_block(struct profd_walk_tokens *tokens, struct profd_block_history *history,
 *                            const struct profd_block_rate *rate, __u32 uid, __u32 site,
 *                            __u64 now_ns)
 *
 * Whether a block with that chance is chosen. `random` has 32 equally likely bits.
 *   bool profd_is_chosen(__u32 chance, __u32 random)
 *
 * Adds a block that has ended.
 *   void profd_learn_block(struct profd_block_history *history, __u64 lasted_ns)
 */

#endif
