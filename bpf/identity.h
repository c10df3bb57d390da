/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The identities of processes, with their pids in profd's own PID namespace, and of files, and
 * keyed hashes of both.
 */
#ifndef PROFD_IDENTITY_H
#define PROFD_IDENTITY_H

#include "bpf/kernel_types.h"
#include "bpf/profd_abi.h"

/* profd's PID namespace. profd reads the iterator profd_tasks, which sets it, before it opens the
 * first event. */
struct {
	__u32 level;
	__u32 inum;
} profd_namespace;

/* The number of a struct pid in profd's namespace; 0 if it is not visible there. */
static __always_inline __u32 profd_number_of(struct pid *pid)
{
	struct upid upid;

	if (!pid || BPF_CORE_READ(pid, level) < profd_namespace.level)
		return 0;
	void *numbers = (void *)pid + bpf_core_field_offset(struct pid, numbers);

	if (bpf_probe_read_kernel(&upid, sizeof(upid),
				  numbers + profd_namespace.level * sizeof(upid)))
		return 0;
	return BPF_CORE_READ(upid.ns, ns.inum) == profd_namespace.inum ? upid.nr : 0;
}

/* In the initial namespace every task is visible by its global number, even a task that was
 * released and has no struct pid any more. */
static __always_inline __u32 profd_tgid_of(struct task_struct *leader)
{
	return profd_namespace.level ? profd_number_of(BPF_CORE_READ(leader, thread_pid))
				     : leader->tgid;
}

static __always_inline __u32 profd_tid_of(struct task_struct *task)
{
	return profd_namespace.level ? profd_number_of(BPF_CORE_READ(task, thread_pid)) : task->pid;
}

/* False if the process is not visible in profd's namespace. */
static __always_inline bool profd_identify(struct task_struct *leader,
					   struct profd_process_key *process)
{
	process->start_ns = leader->start_boottime;
	process->exec_id = (__u32)leader->self_exec_id;
	process->tgid = profd_tgid_of(leader);
	return process->tgid != 0;
}

/* Since Linux 6.13 one bit of the nanoseconds is a flag (I_CTIME_QUERIED). */
#define PROFD_CTIME_NSEC_MASK 0x7fffffff
#define PROFD_NS_PER_SECOND 1000000000LL

static __always_inline __s64 profd_ctime_ns(struct inode *inode)
{
	struct inode___split_ctime *split = (void *)inode;
	struct inode___hidden_ctime *hidden = (void *)inode;
	struct inode___ctime *plain = (void *)inode;

	if (bpf_core_field_exists(split->i_ctime_sec))
		return BPF_CORE_READ(split, i_ctime_sec) * PROFD_NS_PER_SECOND +
		       (BPF_CORE_READ(split, i_ctime_nsec) & PROFD_CTIME_NSEC_MASK);
	if (bpf_core_field_exists(hidden->__i_ctime))
		return BPF_CORE_READ(hidden, __i_ctime.tv_sec) * PROFD_NS_PER_SECOND +
		       BPF_CORE_READ(hidden, __i_ctime.tv_nsec);
	return BPF_CORE_READ(plain, i_ctime.tv_sec) * PROFD_NS_PER_SECOND +
	       BPF_CORE_READ(plain, i_ctime.tv_nsec);
}

#define PROFD_FUSE_MAGIC 0x65735546 /* FUSE_SUPER_MAGIC */

static __always_inline bool profd_is_on_fuse(struct file *file)
{
	return file && BPF_CORE_READ(file, f_inode, i_sb, s_magic) == PROFD_FUSE_MAGIC;
}

static __always_inline void profd_file_key_of(struct file *file, struct profd_file_key *key)
{
	struct inode *inode = file ? BPF_CORE_READ(file, f_inode) : NULL;

	__builtin_memset(key, 0, sizeof(*key));
	if (!inode)
		return;
	key->inode = BPF_CORE_READ(inode, i_ino);
	key->size = BPF_CORE_READ(inode, i_size);
	key->generation = BPF_CORE_READ(inode, i_generation);
	key->device = BPF_CORE_READ(inode, i_sb, s_dev);
	key->ctime_ns = profd_ctime_ns(inode);
}

/*
 * The key of the hashes is random at each start: a process that chooses its own addresses and
 * offsets must not be able to forge the id of another process's mapping.
 */
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
