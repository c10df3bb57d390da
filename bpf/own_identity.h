/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What the programs have to know of profd itself: its namespaces and its root directory. Each
 * object learns it by itself, from an iterator that profd reads.
 */
#ifndef PROFD_OWN_IDENTITY_H
#define PROFD_OWN_IDENTITY_H

#include "bpf/filter.h"
#include "bpf/identity.h"
#include "bpf/names.h"

/* Called in the context of the process that reads the iterator: profd. */
static __always_inline void profd_learn_own_identity(void)
{
	struct task_struct *self = bpf_get_current_task_btf();
	struct pid *pid = BPF_CORE_READ(self, thread_pid);
	__u32 level = BPF_CORE_READ(pid, level);
	void *numbers = (void *)pid + bpf_core_field_offset(struct pid, numbers);
	struct upid upid;

	if (bpf_probe_read_kernel(&upid, sizeof(upid), numbers + level * sizeof(upid)))
		return;
	profd_namespace.inum = BPF_CORE_READ(upid.ns, ns.inum);
	profd_namespace.level = level;
	profd_learn_root(self);
	profd_learn_user_namespace(self);
}

#endif
