/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The kernel's structs, with only the fields that the programs read. CO-RE relocates every access
 * to the field's offset in the running kernel. A suffix after ___ is a flavour: another layout of
 * the same struct, selected at load time by bpf_core_field_exists(). Checked with Linux 6.1
 * to 6.18.
 */
#ifndef PROFD_KERNEL_TYPES_H
#define PROFD_KERNEL_TYPES_H

#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <linux/types.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#define PF_IO_WORKER 0x00000010
#define PF_USER_WORKER 0x00004000 /* since Linux 6.4; the bit has no meaning in 6.1 */
#define PF_KTHREAD 0x00200000

#define VM_EXEC 0x00000004
#define MAP_FIXED 0x10
#define MAP_ANONYMOUS 0x20
#define PROFD_PAGE_SHIFT 12
#define PROFD_PAGE_BYTES (1 << PROFD_PAGE_SHIFT)

#define PROFD_USER32_CS 0x23	 /* __USER32_CS: the code segment of 32-bit user mode */
#define PROFD_DUMPABLE_MASK 3	 /* MMF_DUMPABLE_MASK */
#define PROFD_DUMPABLE_BY_USER 1 /* SUID_DUMP_USER */

/* A map with one value of a struct for each CPU, and the function that returns this CPU's value. */
#define PROFD_PER_CPU(name)                                                                        \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);                                           \
		__uint(max_entries, 1);                                                            \
		__type(key, __u32);                                                                \
		__type(value, struct name);                                                        \
	} name SEC(".maps");                                                                       \
                                                                                                   \
	static __always_inline struct name *name##_here(void)                                      \
	{                                                                                          \
		__u32 zero = 0;                                                                    \
                                                                                                   \
		return bpf_map_lookup_elem(&name, &zero);                                          \
	}                                                                                          \
	_Static_assert(sizeof(struct name) <= 32768, "a per-CPU value holds 32 KiB")

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* The kernel names the registers ip, sp and so on, where UAPI has rip, rsp. Since 6.9 cs is 16 bits
 * of a union. */
struct pt_regs___kernel {
	unsigned long r15, r14, r13, r12;
	unsigned long bp, bx;
	unsigned long r11, r10, r9, r8;
	unsigned long ax, cx, dx, si, di;
	unsigned long orig_ax;
	unsigned long ip;
	unsigned short cs;
	unsigned long sp;
};

typedef struct {
	unsigned int val;
} profd_kernel_id;

/* Read as 8 bytes: two words before 6.3. */
typedef struct {
	__u64 val;
} profd_kernel_capabilities;

struct user_namespace;

struct cred {
	profd_kernel_id uid;
	profd_kernel_id gid;
	profd_kernel_id suid;
	profd_kernel_id sgid;
	profd_kernel_id euid;
	profd_kernel_id egid;
	profd_kernel_capabilities cap_permitted;
	struct user_namespace *user_ns;
};

struct ns_common {
	unsigned int inum;
};

struct pid_namespace {
	struct ns_common ns;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct kernfs_node {
	const char *name;
	__u64 id;
};

struct kernfs_node___parent { /* before 6.15 */
	struct kernfs_node *parent;
};

struct kernfs_node___rcu_parent {
	struct kernfs_node *__parent;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
};

struct vfsmount {
	struct dentry *mnt_root;
};

struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct super_block {
	__u32 s_dev;
	unsigned long s_magic;
};

struct timespec64 {
	long long tv_sec;
	long tv_nsec;
};

struct inode {
	struct super_block *i_sb;
	unsigned long i_ino;
	long long i_size;
	__u32 i_generation;
};

struct inode___ctime { /* before 6.6 */
	struct timespec64 i_ctime;
};

struct inode___hidden_ctime { /* 6.6 to 6.10 */
	struct timespec64 __i_ctime;
};

struct inode___split_ctime {
	long long i_ctime_sec;
	__u32 i_ctime_nsec;
};

struct file {
	struct inode *f_inode;
	struct path f_path;
};

struct maple_tree {
	void *ma_root;
};

struct maple_range_64 {
	unsigned long pivot[15];
	void *slot[16];
};

struct maple_arange_64 {
	unsigned long pivot[9];
	void *slot[10];
};

typedef struct {
	void *vdso;
} mm_context_t;

struct mm_struct {
	struct maple_tree mm_mt;
	mm_context_t context;
	struct file *exe_file;
};

/* Changes with every change of the mappings, since 6.4, which introduced per-VMA locks. */
struct mm_struct___sequence_number { /* before 6.13: raised at the change's end */
	int mm_lock_seq;
};

struct seqcount {
	unsigned int sequence;
};

typedef struct seqcount seqcount_t;

struct mm_struct___sequence_count { /* odd while a change is under way */
	seqcount_t mm_lock_seq;
};

struct mm_struct___flags_word { /* before 6.18 */
	unsigned long flags;
};

typedef struct {
	unsigned long __mm_flags[1];
} mm_flags_t;

struct mm_struct___flags_bitmap {
	mm_flags_t flags;
};

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
	struct mm_struct *vm_mm;
	unsigned long vm_flags;
	unsigned long vm_pgoff;
	struct file *vm_file;
};

typedef struct {
	int counter;
} profd_kernel_atomic;

struct signal_struct {
	profd_kernel_atomic live; /* threads that have not called exit */
};

struct fs_struct {
	struct path root;
};

struct sched_entity {
	__u64 sum_exec_runtime;
};

struct thread_struct {
	unsigned long fsbase; /* of the current task too: libraries don't set it by WRFSBASE */
};

struct task_struct {
	unsigned int __state;
	unsigned int flags;
	int on_cpu;
	struct sched_entity se;
	struct mm_struct *mm;
	unsigned int in_execve : 1;
	int pid;
	int tgid;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	__u64 start_boottime;
	__u64 self_exec_id;
	const struct cred *real_cred;
	char comm[16];
	struct fs_struct *fs;
	struct signal_struct *signal;
	struct css_set *cgroups;
	void *bpf_storage; /* of all maps; NULL: the task has none */
	struct thread_struct thread;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
	__u64 seq_num; /* of the object, from 0 */
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct bpf_ksym {
	char name[1]; /* KSYM_NAME_LEN: 512, before 6.1 128 */
};

struct bpf_prog;

struct bpf_prog_aux {
	__u32 func_cnt;
	struct bpf_prog **func;
	struct bpf_ksym ksym;
};

struct bpf_prog {
	__u32 jited_len;
	unsigned int (*bpf_func)(const void *ctx, const void *insn);
	struct bpf_prog_aux *aux;
};

struct bpf_iter__bpf_prog {
	struct bpf_iter_meta *meta;
	struct bpf_prog *prog;
};

#pragma clang attribute pop

#endif
