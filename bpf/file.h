/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The identity of a file (struct profd_file_key) and of its file system. */
#ifndef PROFD_FILE_H
#define PROFD_FILE_H

#include "bpf/kernel_types.h"
#include "bpf/profd_abi.h"

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

#endif
