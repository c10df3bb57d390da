// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
// What any program at each switch costs: the bench of off-CPU subtracts it.

#include "bpf/kernel_types.h"

char LICENSE[] SEC("license") = "GPL";

SEC("tp_btf/sched_switch")
int BPF_PROG(empty_switch, bool preempt, struct task_struct* prev, struct task_struct* next,
             unsigned int prev_state) {
  return 0;
}
