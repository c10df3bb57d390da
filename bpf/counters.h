/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Counters per CPU. Every tick is first counted as taken, and then as exactly one of idle,
 * filtered, sent and lost; no count is computed from the others.
 */
#ifndef PROFD_COUNTERS_H
#define PROFD_COUNTERS_H

#include "bpf/kernel_types.h"
#include "bpf/profd_abi.h"

PROFD_PER_CPU(profd_counters);

/*
 * Global functions, so that they are verified once. They add without branches: for a branch on each
 * of 32 bits the verifier would walk all combinations.
 */
__noinline int profd_count_match(__u32 sessions)
{
	struct profd_counters *counters = profd_counters_here();

	if (!counters)
		return 0;
	for (__u32 slot = 0; slot < PROFD_MAX_SESSIONS && sessions >> slot; slot++)
		counters->session_taken[slot] += sessions >> slot & 1;
	return 0;
}

__noinline int profd_count_loss(__u32 sessions, __u32 loss)
{
	struct profd_counters *counters = profd_counters_here();

	if (!counters || loss >= PROFD_LOSS_COUNT)
		return 0;
	counters->lost[loss]++;
	for (__u32 slot = 0; slot < PROFD_MAX_SESSIONS && sessions >> slot; slot++)
		counters->session_lost[slot][loss] += sessions >> slot & 1;
	return 0;
}

#endif
