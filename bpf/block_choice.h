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
 * Of a thread's blocks that are not certain, as many are chosen as their chances add up to, give or
 * take one: with a draw for each block it would be the square root of their number.
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

/* Of one CPU. Users' threads may take the last half of the tokens only from shares of their own,
 * and none of the last half of those for new sites: so the switches of one user can't use all
 * walks. */
struct profd_walk_tokens {
	struct profd_tokens all;
	struct profd_tokens new_sites;
	struct profd_tokens of_users;	 /* half of walks_per_second */
	struct profd_tokens of_user[64]; /* by uid % 64: an eighth of it each */
};

/* What a thread's earlier blocks say of its next one. */
struct profd_block_history {
	__u32 mean_ns;	/* moving average, an eighth of each new one; at most 2^32 - 1 */
	__u32 peak_ns;	/* the longest, halved at each block */
	__u32 sites[2]; /* hashes of {user ip, orig_ax}, the latest first */
};

/*
 * The chances of a thread's blocks, one behind the other, are cut into parts of 2^32. In each part
 * a point is drawn, and the block that lies at the point is chosen. A fixed distance would choose
 * one site alone of a program whose sites take turns.
 */
struct profd_block_draw {
	__u32 sum;   /* of the chances in this part */
	__u32 point; /* of this part, once the sum is not 0 */
};

/* How long a bucket is left alone after it was filled: else the fractions that integers cut off
 * would be most of what a busy CPU earns. */
#define PROFD_TOKEN_STEP_NS 1000000

/* After this time a bucket is full, whatever its rate is. */
#define PROFD_TOKEN_MAX_NS 4000000000ULL

static __always_inline void profd_fill_tokens(struct profd_tokens *tokens, __u32 per_second,
					      __u32 burst, __u64 now_ns)
{
	__u64 full = 1000ULL * burst;
	__u64 elapsed_ns = now_ns - tokens->filled_ns;
	__u64 filled = full;

	if (tokens->filled_ns && elapsed_ns < PROFD_TOKEN_STEP_NS)
		return;
	if (tokens->filled_ns && elapsed_ns < PROFD_TOKEN_MAX_NS)
		filled = tokens->millitokens + elapsed_ns * per_second / 1000000;
	tokens->millitokens = filled < full ? filled : full;
	tokens->filled_ns = now_ns;
}

/* Takes a token of those that are there, if at least so many others are left. */
static __always_inline bool profd_spend_token_above(struct profd_tokens *tokens, __u32 left)
{
	if (tokens->millitokens < 1000ULL * left + 1000)
		return false;
	tokens->millitokens -= 1000;
	return true;
}

/* The same, with the tokens that the bucket has earned since it was filled. */
static __always_inline bool profd_take_token_above(struct profd_tokens *tokens, __u32 per_second,
						   __u32 burst, __u32 left, __u64 now_ns)
{
	profd_fill_tokens(tokens, per_second, burst, now_ns);
	return profd_spend_token_above(tokens, left);
}

/* Whether a token is there, which it takes. `per_second` and `burst` are in tokens. */
static __always_inline bool profd_take_token(struct profd_tokens *tokens, __u32 per_second,
					     __u32 burst, __u64 now_ns)
{
	return profd_take_token_above(tokens, per_second, burst, 0, now_ns);
}

/* A burst of at least one token, otherwise none could ever be taken. */
static __always_inline __u32 profd_share_of_burst(__u32 burst, __u32 parts)
{
	return burst > parts ? burst / parts : 1;
}

/* Takes a token of a user's thread from the shares of the user and of all users. */
static __always_inline bool profd_take_share(struct profd_walk_tokens *tokens,
					     const struct profd_block_rate *rate, __u32 uid,
					     __u64 now_ns)
{
	__u32 per_second = rate->walks_per_second;

	return profd_take_token(&tokens->of_user[uid & 63], per_second / 16,
				profd_share_of_burst(rate->burst, 16), now_ns) &&
	       profd_take_token(&tokens->of_users, per_second / 2,
				profd_share_of_burst(rate->burst, 2), now_ns);
}

/* Rule 1. */
static __always_inline bool profd_take_walk(struct profd_walk_tokens *tokens,
					    const struct profd_block_rate *rate, __u32 uid,
					    __u64 now_ns)
{
	struct profd_tokens *all = &tokens->all;

	profd_fill_tokens(all, rate->walks_per_second, rate->burst, now_ns);
	if (uid && profd_spend_token_above(all, rate->burst / 2))
		return true;
	if (uid && !profd_take_share(tokens, rate, uid, now_ns))
		return false;
	return profd_spend_token_above(all, 0);
}

/* Rule 2. The last half is kept for root's threads here too. */
static __always_inline bool profd_take_new_site(struct profd_walk_tokens *tokens,
						const struct profd_block_rate *rate, __u32 uid,
						__u64 now_ns)
{
	__u32 burst = profd_share_of_burst(rate->burst, 8);

	return profd_take_token_above(&tokens->new_sites, rate->new_sites_per_second, burst,
				      uid ? burst / 2 : 0, now_ns);
}

/* Rule 3. */
static __always_inline __u32 profd_chance_of(const struct profd_block_history *history, __u32 scale)
{
	__u32 longer = history->mean_ns > history->peak_ns ? history->mean_ns : history->peak_ns;
	__u64 chance = (__u64)scale * longer >> 10;

	if (chance >> 32)
		return PROFD_CERTAIN;
	return chance > PROFD_MIN_CHANCE ? (__u32)chance : PROFD_MIN_CHANCE;
}

/* Notes the site of a block. Whether it was none of the last two. */
static __always_inline bool profd_is_new_site(struct profd_block_history *history, __u32 site)
{
	__u32 last = history->sites[0];

	if (site == last)
		return false;
	history->sites[0] = site;
	if (site == history->sites[1]) {
		history->sites[1] = last;
		return false;
	}
	history->sites[1] = last;
	return true;
}

/*
 * The chance of a block at `site`, which is not 0, that starts now: rules 1 to 3. `uid` 0: root's.
 * `scale` is the chance for each 1,024 ns of the larger of mean_ns and peak_ns. Updates the tokens
 * and the sites.
 */
static __always_inline __u32 profd_choose_block(struct profd_walk_tokens *tokens,
						struct profd_block_history *history,
						const struct profd_block_rate *rate, __u32 uid,
						__u32 site, __u64 now_ns)
{
	bool is_new = profd_is_new_site(history, site);

	if (profd_take_walk(tokens, rate, uid, now_ns))
		return PROFD_CERTAIN;
	if (is_new && profd_take_new_site(tokens, rate, uid, now_ns))
		return PROFD_CERTAIN;
	return profd_chance_of(history, rate->scale);
}

/* Whether a part begins with a block of that chance, so that its point has to be drawn: at the
 * least chance one block in 1,024 does. */
static __always_inline bool profd_begins_part(const struct profd_block_draw *draw, __u32 chance)
{
	return chance != PROFD_CERTAIN && (!draw->sum || draw->sum + chance < chance);
}

/*
 * Whether a block with that chance is chosen. `random` has 32 equally likely bits, and is used only
 * where a part begins. A block that lies in two parts may be chosen in both: it then stands for
 * twice as many, so its chance is halved.
 */
static __always_inline bool profd_is_chosen(struct profd_block_draw *draw, __u32 *chance,
					    __u32 random)
{
	__u32 before = draw->sum;
	__u32 after = before + *chance;
	bool is_in_two = after < before;

	if (*chance == PROFD_CERTAIN)
		return true;
	if (!before)
		draw->point = random;
	__u32 times = draw->point >= before && (is_in_two || draw->point < after);

	draw->sum = after;
	if (is_in_two) {
		draw->point = random;
		times += random < after;
	}
	if (times == 2)
		*chance /= 2;
	return times != 0;
}

/* Adds a block that has ended. */
static __always_inline void profd_learn_block(struct profd_block_history *history, __u64 lasted_ns)
{
	__u32 lasted = lasted_ns >> 32 ? 0xffffffffU : (__u32)lasted_ns;
	__u32 halved = history->peak_ns / 2;

	history->mean_ns = history->mean_ns - history->mean_ns / 8 + lasted / 8;
	history->peak_ns = lasted > halved ? lasted : halved;
}

#endif
