/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Paths of files and cgroups, from the innermost component to the root, each component with its
 * NUL.
 *
 * The walk takes no locks: a concurrent rename can mix two paths. User space uses a path only if
 * the file that it leads to has the file key of the record.
 */
#ifndef PROFD_NAMES_H
#define PROFD_NAMES_H

#include "bpf/scratch.h"

#define PROFD_MAX_COMPONENTS 64

/* profd's root directory, where the paths end. Set like profd_namespace. */
struct {
	__u64 node;  /* struct dentry */
	__u64 mount; /* struct mount */
} profd_root;

struct profd_name_context {
	struct profd_name_walk *walk;
	char *out; /* PROFD_MAX_NAME_BYTES, and room for one more component */
};

/* False if the component does not fit. */
static __always_inline bool profd_append_name(struct profd_name_context *context, const void *name)
{
	__u32 used = context->walk->used;

	if (used >= PROFD_MAX_NAME_BYTES)
		return false;
	long bytes = bpf_probe_read_kernel_str(context->out + used, PROFD_COMPONENT_BYTES, name);

	if (bytes <= 0 || used + bytes > PROFD_MAX_NAME_BYTES)
		return false;
	context->walk->used = used + bytes;
	return true;
}

static __always_inline __u64 profd_mount_of(struct vfsmount *mnt)
{
	return (__u64)mnt - bpf_core_field_offset(struct mount, mnt);
}

/* From a mount's root to its mount point. False at the root of the mount namespace. */
static __always_inline bool profd_cross_mount(struct profd_name_walk *walk)
{
	struct mount *mount = (void *)walk->mount;
	struct mount *parent = BPF_CORE_READ(mount, mnt_parent);

	if (!parent || parent == mount) {
		walk->cut = 0;
		return false;
	}
	walk->node = (__u64)BPF_CORE_READ(mount, mnt_mountpoint);
	walk->mount = (__u64)parent;
	return true;
}

static long profd_path_step(__u32 index, struct profd_name_context *context)
{
	struct profd_name_walk *walk = context->walk;
	struct dentry *dentry = (void *)walk->node;
	struct mount *mount = (void *)walk->mount;
	struct dentry *parent = BPF_CORE_READ(dentry, d_parent);

	if (walk->node == profd_root.node && walk->mount == profd_root.mount) {
		walk->cut = 0;
		return 1;
	}
	if (dentry == BPF_CORE_READ(mount, mnt.mnt_root))
		return !profd_cross_mount(walk);
	/* A root that is not the mount's: the file is outside every mount. */
	if (!parent || parent == dentry)
		return 1;
	if (!profd_append_name(context, BPF_CORE_READ(dentry, d_name.name)))
		return 1;
	walk->node = (__u64)parent;
	return 0;
}

/* Called in the context of profd. */
static __always_inline void profd_learn_root(struct task_struct *self)
{
	profd_root.node = (__u64)BPF_CORE_READ(self, fs, root.dentry);
	profd_root.mount = profd_mount_of(BPF_CORE_READ(self, fs, root.mnt));
}

static __always_inline struct kernfs_node *profd_kernfs_parent(struct kernfs_node *node)
{
	struct kernfs_node___rcu_parent *rcu = (void *)node;
	struct kernfs_node___parent *plain = (void *)node;

	if (bpf_core_field_exists(rcu->__parent))
		return BPF_CORE_READ(rcu, __parent);
	return BPF_CORE_READ(plain, parent);
}

static long profd_cgroup_step(__u32 index, struct profd_name_context *context)
{
	struct profd_name_walk *walk = context->walk;
	struct kernfs_node *node = (void *)walk->node;
	struct kernfs_node *parent = profd_kernfs_parent(node);

	if (!parent)
		return 1;
	if (!profd_append_name(context, BPF_CORE_READ(node, name)))
		return 1;
	walk->node = (__u64)parent;
	return 0;
}

/* Writes the path of scratch->found_file into the mapping record. */
__noinline int profd_write_path(void)
{
	struct profd_scratch *scratch = profd_scratch_here();

	if (!scratch)
		return 0;
	struct file *file = (void *)scratch->found_file;
	struct profd_name_walk *walk = &scratch->name_walk;
	struct profd_name_context context = {.walk = walk, .out = scratch->names};

	walk->node = (__u64)BPF_CORE_READ(file, f_path.dentry);
	walk->mount = profd_mount_of(BPF_CORE_READ(file, f_path.mnt));
	walk->used = 0;
	walk->cut = 1;
	bpf_loop(PROFD_MAX_COMPONENTS, profd_path_step, &context, 0);
	scratch->mapping.name_bytes = walk->used;
	scratch->mapping.names_cut = walk->cut;
	return 0;
}

/* Writes the cgroup v2 path of a kernfs node into the process record. */
__noinline int profd_write_cgroup(__u64 node)
{
	struct profd_scratch *scratch = profd_scratch_here();

	if (!scratch)
		return 0;
	struct profd_name_walk *walk = &scratch->name_walk;
	struct profd_name_context context = {.walk = walk, .out = scratch->cgroup};

	walk->node = node;
	walk->used = 0;
	bpf_loop(PROFD_MAX_COMPONENTS, profd_cgroup_step, &context, 0);
	scratch->process.cgroup_bytes = walk->used;
	return 0;
}

#endif
