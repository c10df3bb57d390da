/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The interpreters in files, and the working memory of the walk over a stack's interpreted frames.
 */
#ifndef PROFD_RUNTIMES_H
#define PROFD_RUNTIMES_H

#include "bpf/code_tags.h"
#include "bpf/identity.h"

/* 0: the kernel's verifier refused the programs with it. User space sets it before load, behind the
 * key of the hashes; the verifier then removes all that depends on it. */
const volatile __u32 profd_with_interpreters = 1;

/* User space writes both. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PROFD_MAX_RUNTIMES);
	__type(key, __u32);
	__type(value, struct profd_runtime);
} profd_runtimes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PROFD_MAX_LAYOUTS);
	__type(key, __u32);
	__type(value, struct profd_layout);
} profd_layouts SEC(".maps");

/* The kernel refuses its own addresses, and clears `to` where it can't read. */
static __always_inline bool profd_read_user(void *to, __u32 bytes, __u64 address)
{
	return !bpf_probe_read_user(to, bytes, (void *)address);
}

static __always_inline __u64 profd_clock_ns(void)
{
	return bpf_ktime_get_ns();
}

#include "bpf/interpreter_state.h"
#include "bpf/php.h"
#include "bpf/python.h"

PROFD_PER_CPU(profd_interpreter);

_Static_assert(__builtin_offsetof(struct profd_interpreter, entries) ==
		       __builtin_offsetof(struct profd_interpreter, stack) +
			       sizeof(struct profd_interpreted_stack),
	       "a stack and its entries are sent as one record");
_Static_assert(__builtin_offsetof(struct profd_interpreter, texts) ==
		       __builtin_offsetof(struct profd_interpreter, announced) +
			       sizeof(struct profd_interpreted_code),
	       "a code object and its texts are sent as one record");

#endif
