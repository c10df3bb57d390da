/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Which sessions sample a process, as a bit mask of slots. User space writes the filter and the
 * maps; the tick only reads them.
 */
#ifndef PROFD_FILTER_H
#define PROFD_FILTER_H

#include "bpf/kernel_types.h"
#include "bpf/profd_abi.h"

#define PROFD_MAX_NAMED_TARGETS 4096

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct profd_filter);
} profd_filter SEC(".maps");

/* Preallocated: the fork hook inserts entries in a context that can't sleep. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PROFD_MAX_TARGETS);
	__type(key, struct profd_target_key);
	__type(value, struct profd_target);
} profd_targets SEC(".maps");

struct profd_comm {
	char bytes[PROFD_COMM_BYTES]; /* padded with 0 */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PROFD_MAX_NAMED_TARGETS);
	__type(key, struct profd_comm);
	__type(value, __u32);
} profd_comms SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PROFD_MAX_NAMED_TARGETS);
	__type(key, __u32);
	__type(value, __u32);
} profd_uids SEC(".maps");

/* A session has PROFD_CGROUPS_PER_SESSION entries, from slot * PROFD_CGROUPS_PER_SESSION. */
struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
	__uint(max_entries, PROFD_MAX_SESSIONS *PROFD_CGROUPS_PER_SESSION);
	__type(key, __u32);
	__type(value, __u32);
} profd_cgroups SEC(".maps");

static __always_inline struct profd_filter *profd_filter_now(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&profd_filter, &zero);
}

/* The slot's bit if it is in `sessions` and has the process as a target. */
__noinline __u32 profd_match_target_of(__u32 sessions, __u32 slot, __u32 tgid, __u64 start_ns,
				       __u32 exec_id)
{
	struct profd_target_key key = {.tgid = tgid, .slot = slot};

	if (!(sessions >> slot & 1))
		return 0;
	struct profd_target *target = bpf_map_lookup_elem(&profd_targets, &key);

	if (!target || target->start_ns != start_ns ||
	    (target->from_exec && target->exec_id == exec_id))
		return 0;
	return 1U << slot;
}

/* The subset of `sessions` that have the current process as a target. */
__noinline __u32 profd_match_target(__u32 sessions)
{
	struct task_struct *leader = bpf_get_current_task_btf()->group_leader;
	__u32 matched = 0;

	for (__u32 slot = 0; slot < PROFD_MAX_SESSIONS && sessions >> slot; slot++)
		matched |=
			profd_match_target_of(sessions, slot, leader->tgid, leader->start_boottime,
					      (__u32)leader->self_exec_id);
	return matched;
}

static __always_inline __u32 profd_match_comm(const struct profd_comm *comm)
{
	__u32 *sessions = bpf_map_lookup_elem(&profd_comms, comm);

	return sessions ? *sessions : 0;
}

static __always_inline __u32 profd_match_uid(struct task_struct *leader)
{
	__u32 uid = leader->real_cred->uid.val;
	__u32 *sessions = bpf_map_lookup_elem(&profd_uids, &uid);

	return sessions ? *sessions : 0;
}

/* The slot's bit if it is in `sessions` and one of its cgroups is an ancestor of the current task.
 * Empty entries do not match. */
__noinline __u32 profd_match_cgroup_of(__u32 sessions, __u32 slot)
{
	if (!(sessions >> slot & 1))
		return 0;
	for (__u32 i = 0; i < PROFD_CGROUPS_PER_SESSION; i++)
		if (bpf_current_task_under_cgroup(&profd_cgroups,
						  slot * PROFD_CGROUPS_PER_SESSION + i) == 1)
			return 1U << slot;
	return 0;
}

/* The subset of `sessions` with a cgroup that is an ancestor of the current task. The loop has no
 * branch: each would double the verifier's work. */
__noinline __u32 profd_match_cgroup(__u32 sessions)
{
	__u32 matched = 0;

	for (__u32 slot = 0; slot < PROFD_MAX_SESSIONS && sessions >> slot; slot++)
		matched |= profd_match_cgroup_of(sessions, slot);
	return matched;
}

static __always_inline bool profd_is_dumpable(struct mm_struct *mm)
{
	struct mm_struct___flags_bitmap *bitmap = (void *)mm;
	struct mm_struct___flags_word *word = (void *)mm;
	__u64 flags;

	if (bpf_core_field_exists(bitmap->flags.__mm_flags))
		flags = BPF_CORE_READ(bitmap, flags.__mm_flags[0]);
	else
		flags = BPF_CORE_READ(word, flags);
	return (flags & PROFD_DUMPABLE_MASK) == PROFD_DUMPABLE_BY_USER;
}

/* The slots whose owner has exactly these ids. */
__noinline __u32 profd_sessions_of_owner(__u32 uid, __u32 gid)
{
	struct profd_filter *filter = profd_filter_now();
	__u32 slots = 0;

	if (!filter)
		return 0;
	for (__u32 slot = 0; slot < PROFD_MAX_SESSIONS; slot++) {
		__u32 other =
			(filter->restrict_uid[slot] ^ uid) | (filter->restrict_gid[slot] ^ gid);

		slots |= (__u32)!other << slot;
	}
	return slots;
}

/* profd's user namespace, to which the ids of session owners belong. Set like profd_namespace. */
struct {
	__u64 address; /* struct user_namespace */
} profd_user_namespace;

/* Called in the context of profd. */
static __always_inline void profd_learn_user_namespace(struct task_struct *self)
{
	profd_user_namespace.address = (__u64)BPF_CORE_READ(self, real_cred, user_ns);
}

/* Whether the credentials are in profd's user namespace and permit no capability. */
static __always_inline bool profd_has_no_capabilities(const struct cred *cred)
{
	const void *caps = (const void *)cred + bpf_core_field_offset(struct cred, cap_permitted);
	__u64 permitted;

	return (__u64)BPF_CORE_READ(cred, user_ns) == profd_user_namespace.address &&
	       !bpf_probe_read_kernel(&permitted, sizeof(permitted), caps) && !permitted;
}

/* Fills in the owner of a task by ptrace's rule (struct profd_owner). An exiting task has no image
 * any more: its credentials decide. */
static __always_inline void profd_owner_of(struct task_struct *task, struct profd_owner *owner)
{
	const struct cred *cred = task->real_cred;
	struct mm_struct *mm = BPF_CORE_READ(task, mm);
	__u32 uid = cred->uid.val, gid = cred->gid.val;

	owner->uid = PROFD_NO_OWNER;
	owner->gid = PROFD_NO_OWNER;
	if (cred->euid.val != uid || cred->suid.val != uid || cred->egid.val != gid ||
	    cred->sgid.val != gid || (mm && !profd_is_dumpable(mm)) ||
	    !profd_has_no_capabilities(cred))
		return;
	owner->uid = uid;
	owner->gid = gid;
}

/* Fills in the owner of the current task. */
__noinline int profd_find_owner(struct profd_owner *owner)
{
	if (owner)
		profd_owner_of(bpf_get_current_task_btf(), owner);
	return 0;
}

/* Those of the sessions that may see a task of this owner. */
static __always_inline __u32 profd_permitted(const struct profd_filter *filter, __u32 sessions,
					     const struct profd_owner *owner)
{
	__u32 restricted = sessions & filter->restricted;

	if (!restricted)
		return sessions;
	return (sessions & ~restricted) |
	       (restricted & profd_sessions_of_owner(owner->uid, owner->gid));
}

/* Those of the sessions that sample the current task. `all` is read once: user space replaces one
 * slot by another in it, and each tick must see exactly one of them. */
static __always_inline __u32 profd_match_wanted(struct profd_filter *filter, __u32 wanted,
						struct task_struct *leader,
						const struct profd_comm *comm,
						const struct profd_owner *owner)
{
	wanted = profd_permitted(filter, wanted, owner);
	__u32 matched = wanted & *(volatile __u32 *)&filter->all;

	if (wanted & filter->by_process & ~matched)
		matched |= profd_match_target(wanted & filter->by_process & ~matched);
	if (wanted & filter->by_comm)
		matched |= profd_match_comm(comm) & wanted & filter->by_comm;
	if (wanted & filter->by_uid)
		matched |= profd_match_uid(leader) & wanted & filter->by_uid;
	if (wanted & filter->by_cgroup & ~matched)
		matched |= profd_match_cgroup(wanted & filter->by_cgroup & ~matched);
	return matched;
}

/* The sessions of an event set that sample the current task. */
static __always_inline __u32 profd_match(struct profd_filter *filter, __u64 event_set,
					 struct task_struct *leader, const struct profd_comm *comm,
					 const struct profd_owner *owner)
{
	if (event_set >= PROFD_MAX_EVENT_SETS)
		return 0;
	return profd_match_wanted(filter, filter->event_set[event_set] & filter->live, leader, comm,
				  owner);
}

#endif
