/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * One ring buffer per possible CPU, created by user space. User space drains them by a timer, every
 * 4 s when only windows are sampled; it is woken only for what cannot wait: a new file, the first
 * anonymous code of a process, a deferred stack, and a ring that is half full.
 */
#ifndef PROFD_RING_H
#define PROFD_RING_H

#include "bpf/kernel_types.h"
#include "bpf/profd_abi.h"

struct profd_ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096); /* a template: user space creates the rings */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1); /* set before load to the number of possible CPUs */
	__type(key, __u32);
	__array(values, struct profd_ring);
} profd_rings SEC(".maps");

static __always_inline void *profd_ring_here(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&profd_rings, &cpu);
}

/* The other half is kept for the samples of privileged sessions, and for records of root's
 * processes: what the processes and sessions of unprivileged users send has no room then. */
static __always_inline bool profd_is_half_full(void *ring)
{
	return bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA) >=
	       bpf_ringbuf_query(ring, BPF_RB_RING_SIZE) / 2;
}

/* The last quarter of the ring is for ticks alone: no storm of switches can take it. */
static __always_inline bool profd_is_for_ticks(void *ring)
{
	return bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA) >=
	       bpf_ringbuf_query(ring, BPF_RB_RING_SIZE) / 4 * 3;
}

/* The eighth before that is for the ends of blocks, which are short. */
static __always_inline bool profd_is_for_ends(void *ring)
{
	return bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA) >=
	       bpf_ringbuf_query(ring, BPF_RB_RING_SIZE) / 8 * 5;
}

static __always_inline __u64 profd_wake_when_half_full(void *ring)
{
	return profd_is_half_full(ring) ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

/* bpf_ringbuf_output() has one error for a full ring and for a lock that the tick interrupted. */
static __always_inline enum profd_loss profd_ring_failure(void *ring, __u64 bytes)
{
	__u64 used = bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA);
	__u64 needed = (bytes + BPF_RINGBUF_HDR_SZ + 7) & ~7ULL;

	return used + needed >= bpf_ringbuf_query(ring, BPF_RB_RING_SIZE) ? PROFD_LOSS_RING_FULL
									  : PROFD_LOSS_RING_BUSY;
}

#endif
