// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * The sampling program. It runs once per tick of a perf event, in interrupt or NMI context.
 *
 * It counts the tick, matches it with the sessions, builds one record of exactly the size that it
 * needs, and sends it. Every failure is counted. The program takes no lock, and writes to no map
 * entry whose lock another CPU could hold.
 */
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
#include "bpf/targets.h"
#include "bpf/unmaps.h"
#include "bpf/unwind.h"
#include "bpf/fill.h"
#include "bpf/running_code.h"
#include "bpf/bpf_functions.h"

char LICENSE[] SEC("license") = "GPL";

/* The volatile access reads all 8 bytes: the verifier rejects a shorter read of the context. */
static __always_inline bool profd_hit_user_mode(struct bpf_perf_event_data *ctx)
{
	return (*(volatile __u64 *)&ctx->regs.cs & 3) == 3;
}

static __always_inline void profd_fill_sample(struct bpf_perf_event_data *ctx,
					      struct profd_scratch *scratch,
					      struct profd_cache *cache, struct task_struct *task)
{
	struct profd_sample *sample = &scratch->sample;
	struct pt_regs___kernel *regs = (void *)bpf_task_pt_regs(task);
	bool hit_user = profd_hit_user_mode(ctx);

	profd_start_sample(scratch, task);
	sample->period = ctx->sample_period;
	sample->context = profd_context_of_task(task, regs, hit_user);
	if (!hit_user)
		profd_walk_kernel(ctx, scratch);
	profd_fill_user_part(scratch, cache, task, regs);
}

static __always_inline void profd_send_sample(struct profd_scratch *scratch,
					      struct profd_counters *counters,
					      struct profd_filter *filter)
{
	struct profd_sample *sample = &scratch->sample;
	void *ring = profd_ring_here();

	if (!ring) {
		profd_count_loss(sample->sessions, PROFD_LOSS_NO_RING);
		return;
	}
	if (!(sample->sessions & ~filter->of_users) && profd_is_half_full(ring)) {
		profd_count_loss(sample->sessions, PROFD_LOSS_RING_SHARE);
		return;
	}
	__u64 bytes = profd_sample_bytes(sample);
	/* For a deferred stack user space has to make the table, so it is woken. */
	__u64 wake = sample->deferred_words ? BPF_RB_FORCE_WAKEUP : profd_wake_when_half_full(ring);

	sample->header.size = bytes;
	if (bpf_ringbuf_output(ring, sample, bytes, wake))
		profd_count_loss(sample->sessions, profd_ring_failure(ring, bytes));
	else
		counters->sent++;
}

/* The sessions that sample the current task; if there are none, counts the tick as filtered. Fills
 * in the sample's process. */
static __always_inline __u32 profd_select(struct profd_counters *counters,
					  struct profd_scratch *scratch,
					  struct profd_filter *filter, struct task_struct *task,
					  const struct profd_comm *comm)
{
	struct profd_sample *sample = &scratch->sample;
	struct task_struct *leader = task->group_leader;
	__u32 sessions = 0;

	if (profd_identify(leader, &sample->process))
		sessions = profd_match(filter, sample->event_set, leader, comm, &sample->owner);
	else
		counters->outside_namespace++;
	if (!sessions)
		counters->filtered++;
	return sessions;
}

SEC("perf_event")
int profd_tick(struct bpf_perf_event_data *ctx)
{
	struct profd_counters *counters = profd_counters_here();
	struct profd_scratch *scratch = profd_scratch_here();
	struct profd_cache *cache = profd_cache_here();
	struct profd_filter *filter = profd_filter_now();
	__u64 event_set = bpf_get_attach_cookie(ctx);

	if (!counters)
		return 0;
	counters->taken++;
	if (event_set < PROFD_MAX_EVENT_SETS)
		counters->event_set_taken[event_set]++;
	if (!(__u32)bpf_get_current_pid_tgid()) {
		counters->idle++;
		return 0;
	}
	if (!scratch || !cache || !filter) {
		counters->lost[PROFD_LOSS_SCRATCH]++;
		return 0;
	}
	struct task_struct *task = bpf_get_current_task_btf();
	struct profd_comm comm = {};

	scratch->sample.event_set = event_set;
	profd_find_owner(&scratch->sample.owner);
	bpf_probe_read_kernel_str(&comm, sizeof(comm), task->group_leader->comm);
	__u32 sessions = profd_select(counters, scratch, filter, task, &comm);

	if (!sessions)
		return 0;
	profd_count_match(sessions);
	scratch->sample.time_ns = bpf_ktime_get_ns();
	scratch->sample.sessions = sessions;
	scratch->announcements = filter->announcements;
	scratch->table_generation = filter->table_generation;
	profd_invalidate_rules(scratch->table_generation);
	profd_announce_process(scratch, cache, &comm);
	profd_fill_sample(ctx, scratch, cache, task);
	profd_send_sample(scratch, counters, filter);
	return 0;
}
