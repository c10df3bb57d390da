/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What the records of users without privileges may cost: the time of ticks, and room in the ring.
 *
 * A process can have hundreds of files at long paths in its stacks, and change them all the time,
 * so that each tick meets mappings that were never sent. So each user has a credit on each CPU, in
 * bytes of records, and all of them together have one. A credit grows with the ticks of the CPU: a
 * program that starts finds enough for all its mappings, and in the mean a tick sends no more than
 * it earns. Process records, of which a tick sends one at most, are paid for from the same credits,
 * and so is what the kernel side reads without sending it. Root pays nothing.
 *
 * A mapping that is not sent is counted, and tried again at the next tick that meets it.
 */
#ifndef PROFD_CREDIT_H
#define PROFD_CREDIT_H

#include "bpf/cache.h"
#include "bpf/counters.h"
#include "bpf/identity.h"
#include "bpf/ring.h"

/* In the mean 18 mappings at short paths, or one at the longest path: about 10 us. */
#define PROFD_CREDIT_OF_TICK 3072
#define PROFD_CREDIT_MAX 65536 /* 400 mappings at short paths */
#define PROFD_CREDIT_USERS_TOGETHER 4

/* For a record besides its bytes, and for a leaf of the VMA tree, which has up to 16 VMAs, that is
 * read while a process's mappings are listed. */
#define PROFD_RECORD_COST 64
#define PROFD_LEAF_COST 512

static __always_inline __u32 profd_uid_of_current(void)
{
	return bpf_get_current_task_btf()->group_leader->real_cred->uid.val;
}

/* Users share a credit where their hashes meet. The hash key is random. */
static __always_inline struct profd_credit *profd_credit_of(struct profd_cache *cache, __u32 uid)
{
	__u64 hash = profd_hash_end(profd_hash_word(profd_hash_key[0], uid));

	return &cache->credits[hash % PROFD_CREDITS];
}

/* Adds what was earned since the last call. Nobody has used a credit whose `taken` is 0: it is
 * full. */
static __always_inline void profd_earn(struct profd_credit *credit, __u64 taken, __u32 times)
{
	__s64 max = PROFD_CREDIT_MAX * times;
	__u64 ticks = taken - credit->taken;

	if (!credit->taken || ticks >= PROFD_CREDIT_MAX / PROFD_CREDIT_OF_TICK * 2)
		credit->bytes = max;
	else
		credit->bytes += ticks * PROFD_CREDIT_OF_TICK * times;
	if (credit->bytes > max)
		credit->bytes = max;
	credit->taken = taken;
}

/* Whether the current process may have one more record sent. Its user then pays for `bytes`: the
 * credit may become negative, and is then earned back first. */
static __always_inline bool profd_pay(struct profd_cache *cache, struct profd_counters *counters,
				      __u64 bytes)
{
	__u32 uid = profd_uid_of_current();

	if (!uid)
		return true;
	struct profd_credit *own = profd_credit_of(cache, uid);
	struct profd_credit *together = &cache->credit_together;

	profd_earn(own, counters->taken, 1);
	profd_earn(together, counters->taken, PROFD_CREDIT_USERS_TOGETHER);
	if (own->bytes <= 0 || together->bytes <= 0)
		return false;
	own->bytes -= bytes;
	together->bytes -= bytes;
	return true;
}

#endif
