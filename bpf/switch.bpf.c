// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * The programs of threads that are off their CPU. Loaded while a session wants blocks, and closed
 * with all that they know soon after the last: a start without an end would become a long block of
 * the next session.
 */

/* A switch holds the run queue's lock, for which other CPUs wait: so a walk lists fewer mappings
 * than that of a tick (deferred.h). */
#define PROFD_MAX_LEAVES 16
#define PROFD_MAX_LISTED 64

#include "bpf/kernel_types.h"
#include "bpf/profd_abi.h"

#include "bpf/counters.h"
#include "bpf/filter.h"
#include "bpf/deferred.h"
#include "bpf/cache.h"
#include "bpf/identity.h"
#include "bpf/announce.h"
#include "bpf/ring.h"
#include "bpf/scratch.h"
#include "bpf/unwind.h"
#include "bpf/fill.h"
#include "bpf/threads.h"

char LICENSE[] SEC("license") = "GPL";
