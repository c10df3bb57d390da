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
#include "bpf/running_code.h"
#include "bpf/bpf_functions.h"

char LICENSE[] SEC("license") = "GPL";

/* The volatile access reads all 8 bytes: the verifier rejects a shorter read of the context. */
static __always_inline bool profd_hit_user_mode(struct bpf_perf_event_data *ctx)
{
	return (*(volatile __u64 *)&ctx->regs.cs & 3) == 3;
}

static __always_inline __u8 profd_context_of(struct bpf_perf_event_data *ctx,
					     struct task_struct *task,
					     struct pt_regs___kernel *regs)
{
	/* Kernel workers use a user process's mm, but have no user registers. */
	if (task->flags & (PF_KTHREAD | PF_IO_WORKER | PF_USER_WORKER))
		return PROFD_CONTEXT_KTHREAD;
	if (!task->mm)
		return PROFD_CONTEXT_EXIT;
	if (bpf_core_field_exists(task->in_execve) && BPF_CORE_READ_BITFIELD(task, in_execve))
		return PROFD_CONTEXT_EXEC;
	if (regs->cs == PROFD_USER32_CS)
		return PROFD_CONTEXT_COMPAT;
	if (profd_hit_user_mode(ctx))
		return PROFD_CONTEXT_USER;
	/* The kernel's entry code sets orig_ax to -1, except for system calls. */
	return (__s64)regs->orig_ax >= 0 ? PROFD_CONTEXT_SYSCALL : PROFD_CONTEXT_TRAP;
}

static __always_inline void profd_walk_kernel(struct bpf_perf_event_data *ctx,
					      struct profd_scratch *scratch)
{
	struct profd_sample *sample = &scratch->sample;
	long bytes = bpf_get_stack(ctx, scratch->words, PROFD_MAX_KERNEL_FRAMES * 8, 0);

	sample->kernel_frames = bytes > 0 ? (__u32)bytes / 8 : 0;
	sample->kernel_truncated = sample->kernel_frames == PROFD_MAX_KERNEL_FRAMES;
}

static __always_inline void profd_append_mappings(struct profd_scratch *scratch)
{
	struct profd_sample *sample = &scratch->sample;
	__u32 next = sample->kernel_frames + sample->user_frames;
	__u32 count = scratch->mapping_count;

	/* Never true; a bound for the verifier. */
	if (next > PROFD_MAX_KERNEL_FRAMES + PROFD_MAX_USER_FRAMES)
		return;
	for (__u32 i = 0; i < PROFD_MAX_STACK_MAPPINGS && i < count; i++)
		scratch->words[next + i] = scratch->mapping_ids[i];
	sample->mapping_count = count;
}

/* Fills in the context and the stacks, the kernel's first: the record's words lie in this order. */
static __always_inline void profd_fill_sample(struct bpf_perf_event_data *ctx,
					      struct profd_scratch *scratch,
					      struct profd_cache *cache, struct task_struct *task)
{
	struct profd_sample *sample = &scratch->sample;
	struct pt_regs___kernel *regs = (void *)bpf_task_pt_regs(task);

	sample->header.type = PROFD_RECORD_SAMPLE;
	sample->period = ctx->sample_period;
	sample->tid = profd_tid_of(task);
	bpf_get_current_comm(sample->thread, sizeof(sample->thread));
	sample->cpu = bpf_get_smp_processor_id();
	sample->context = profd_context_of(ctx, task, regs);
	sample->kernel_frames = 0;
	sample->kernel_truncated = 0;
	sample->user_frames = 0;
	sample->mapping_count = 0;
	sample->user_end = PROFD_END_NO_USER_STACK;
	sample->deferred_words = 0;
	scratch->mapping_count = 0;
	if (!profd_hit_user_mode(ctx))
		profd_walk_kernel(ctx, scratch);
	if (sample->context <= PROFD_CONTEXT_TRAP) {
		profd_enter_space(scratch, cache, task);
		profd_walk_user(scratch, cache, regs);
	}
	profd_append_mappings(scratch);
	if (sample->user_end == PROFD_END_DEFERRED)
		profd_append_deferred(sample->kernel_frames + sample->user_frames +
				      sample->mapping_count);
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
	__u64 words = sample->kernel_frames + sample->user_frames + sample->mapping_count +
		      sample->deferred_words;

	if (words > PROFD_MAX_WORDS + PROFD_MAX_DEFERRED_WORDS)
		words = PROFD_MAX_WORDS + PROFD_MAX_DEFERRED_WORDS;
	__u64 bytes = sizeof(*sample) + words * 8;
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
