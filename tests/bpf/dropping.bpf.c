// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* The programs with a fault: each tenth record of a CPU is dropped in silence. The ledger must show
 * it. */
#include "bpf/kernel_types.h"

static __u64 profd_test_records;

static __always_inline long dropping_output(void* ring, void* data, __u64 size, __u64 flags) {
  if (__sync_fetch_and_add(&profd_test_records, 1) % 10 == 9) return 0;
  return bpf_ringbuf_output(ring, data, size, flags);
}

#define bpf_ringbuf_output dropping_output

#include "bpf/sampler.bpf.c"
