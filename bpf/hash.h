/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * A keyed 64-bit hash of a few words. The key is random at each start: a process that chooses its
 * own addresses and offsets must not be able to forge the id of another process's mapping.
 */
#ifndef PROFD_HASH_H
#define PROFD_HASH_H

#include "bpf/kernel_types.h"
#include "bpf/profd_abi.h"

const volatile __u64 profd_hash_key[2];

/* One round of multiply and fold. Without the second key word rounds could be inverted. */
static __always_inline __u64 profd_hash_word(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
	return (hash ^ hash >> 29) + profd_hash_key[1];
}

/* Never 0. */
static __always_inline __u64 profd_hash_end(__u64 hash)
{
	hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93ULL;
	return (hash ^ hash >> 32) | 1;
}

static __always_inline __u64 profd_hash_process(const struct profd_process_key *process)
{
	__u64 hash = profd_hash_word(profd_hash_key[0], process->start_ns);

	return profd_hash_word(hash, (__u64)process->exec_id << 32 | process->tgid);
}

static __always_inline __u64 profd_hash_file(__u64 hash, const struct profd_file_key *file)
{
	hash = profd_hash_word(hash, file->inode);
	hash = profd_hash_word(hash, file->size);
	hash = profd_hash_word(hash, file->ctime_ns);
	return profd_hash_word(hash, (__u64)file->generation << 32 | file->device);
}

#endif
