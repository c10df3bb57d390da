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
/* Likewise for the frames and code objects of interpreters (interpreter_state.h). */
#define PROFD_MAX_CHAIN_NS 12000
#define PROFD_MAX_CODES_NS 6000
#define PROFD_MAX_CODES_OF_TICK 8
#define PROFD_MAX_CODE_BYTES_OF_TICK 4096
/* Its samples are the starts of blocks (interpreted_count.h). */
#define PROFD_INTERPRETED_OF_BLOCK 1

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
#include "bpf/blocks.h"
#include "bpf/open_blocks.h"
#include "bpf/threads.h"

char LICENSE[] SEC("license") = "GPL";

#define PROFD_MATCH_NS 1000000000

/* Those of the sessions that sample the current task. Fills in the process and the owner of the
 * sample, and the comm. Global, so that it is verified once. */
__noinline __u32 profd_match_current(__u32 wanted)
{
	struct profd_scratch *scratch = profd_scratch_here();
	struct profd_switch_state *here = profd_switch_state_here();
	struct profd_filter *filter = profd_filter_now();
	struct task_struct *leader = bpf_get_current_task_btf()->group_leader;

	if (!scratch || !here || !filter || !profd_identify(leader, &scratch->sample.process))
		return 0;
	profd_find_owner(&scratch->sample.owner);
	__builtin_memset(&here->comm, 0, sizeof(here->comm));
	bpf_probe_read_kernel_str(&here->comm, sizeof(here->comm), leader->comm);
	return profd_match_wanted(filter, wanted, leader, &here->comm, &scratch->sample.owner);
}

/* A match costs more than a switch may: a thread keeps its own for a second, unless a session began
 * or ended, or the process has another image. */
static __always_inline bool profd_is_matched(const struct profd_thread *thread,
					     const struct profd_filter *filter,
					     struct task_struct *leader, __u64 now)
{
	return thread->generation == filter->match_generation &&
	       thread->exec_id == (__u32)leader->self_exec_id &&
	       now - thread->matched_ns < PROFD_MATCH_NS;
}

static __always_inline void profd_match_thread(struct profd_thread *thread,
					       const struct profd_filter *filter,
					       struct task_struct *leader, __u64 now)
{
	/* Read before all that it stands for. */
	__u32 generation = *(const volatile __u32 *)&filter->match_generation;

	thread->sessions = profd_match_current((filter->blocked | filter->runnable) & filter->live);
	thread->generation = generation;
	thread->exec_id = (__u32)leader->self_exec_id;
	thread->matched_ns = now;
}

/* Never 0. */
static __always_inline __u32 profd_site_of(const struct pt_regs___kernel *regs)
{
	__u64 site = regs->ip ^ (__u64)regs->orig_ax << 48;

	return (__u32)(site * 0x9e3779b97f4a7c15ULL >> 32) | 1;
}

/* Whether the block of a thread of `uid` that begins now is chosen. Sets the chance in this CPU's
 * state. The call of one helper costs as much as all of this: so the caller passes what it has, and
 * a random number is drawn only where it is used. */
static __always_inline bool profd_choose_current(struct profd_switch_state *here,
						 struct profd_thread *thread,
						 const struct profd_block_rate *rate, __u32 uid,
						 __u32 site, __u64 now)
{
	__u32 chance = profd_choose_block(&here->tokens, &thread->history, rate, uid, site, now);
	__u32 random = profd_begins_part(&thread->draw, chance) ? bpf_get_prandom_u32() : 0;
	bool is_chosen = profd_is_chosen(&thread->draw, &chance, random);

	here->chance = chance;
	return is_chosen;
}

/* Sends the start of a block. Returns 0, or 1 and the reason of its loss. */
static __always_inline __u32 profd_send_start(struct profd_scratch *scratch,
					      const struct profd_filter *filter)
{
	struct profd_sample *sample = &scratch->sample;
	struct profd_block *block = &scratch->block;
	void *ring = profd_ring_here();

	if (!ring)
		return 1 + PROFD_LOSS_NO_RING;
	if (profd_is_over_share(ring, filter, sample->sessions))
		return 1 + PROFD_LOSS_RING_SHARE;
	__u64 bytes = profd_sample_bytes(sample);
	/* For a deferred stack user space has to make the table, so it is woken. */
	__u64 wake = sample->deferred_words ? BPF_RB_FORCE_WAKEUP : profd_wake_when_half_full(ring);

	sample->header.size = bytes;
	bytes += sizeof(*block);
	block->header.size = bytes;
	block->header.type = PROFD_RECORD_BLOCK;
	if (bpf_ringbuf_output(ring, block, bytes, wake))
		return 1 + profd_ring_failure(ring, bytes);
	return 0;
}

/* Samples the current thread, which was chosen and is matched. */
static __always_inline void profd_sample_block(void *ctx, struct profd_thread *thread,
					       struct task_struct *task,
					       struct pt_regs___kernel *regs,
					       struct profd_switch_state *here, __u64 now)
{
	struct profd_counters *counters = profd_counters_here();
	struct profd_scratch *scratch = profd_scratch_here();
	struct profd_cache *cache = profd_cache_here();
	struct profd_filter *filter = profd_filter_now();

	if (!counters || !scratch || !cache || !filter)
		return;
	struct profd_sample *sample = &scratch->sample;

	sample->time_ns = now;
	sample->period = 1;
	sample->event_set = 0;
	scratch->block.id = profd_draw_id(here, now);
	scratch->block.chance = here->chance;
	scratch->block.state = thread->state;
	scratch->block.unsampled = thread->unsampled;
	scratch->block.unsampled_ns = thread->unsampled_ns;
	scratch->announcements = filter->announcements;
	scratch->table_generation = filter->table_generation;
	profd_invalidate_rules(scratch->table_generation);
	profd_announce_process(scratch, cache, &here->comm);
	profd_start_sample(scratch, task);
	sample->context = profd_context_of_task(task, regs, false);
	profd_walk_kernel(ctx, scratch);
	profd_fill_user_part(scratch, cache, task, regs);
	__u32 lost = profd_send_start(scratch, filter);

	if (lost) {
		thread->lost = lost;
		profd_count_loss(sample->sessions, lost - 1);
		return;
	}
	thread->id = scratch->block.id;
	thread->chosen = 1;
	thread->unsampled = 0;
	thread->unsampled_ns = 0;
	counters->sent++;
}

/* Matches a chosen block again, since rights are exact where a stack is sent, and counts the walk.
 * Sets the sessions of the sample, which are not read from the thread again: an iterator may write
 * those. False if no session wants it any more. */
static __always_inline bool profd_count_walk(struct profd_thread *thread,
					     const struct profd_filter *filter,
					     struct task_struct *leader,
					     const struct profd_switch_state *here, __u64 now)
{
	struct profd_counters *counters = profd_counters_here();
	struct profd_switch_counters *switches = profd_switch_counters_here();
	struct profd_scratch *scratch = profd_scratch_here();

	if (!counters || !switches || !scratch)
		return false;
	counters->taken++;
	if (thread->matched_ns != now)
		profd_match_thread(thread, filter, leader, now);
	__u32 sessions = thread->sessions & profd_slots_for(filter, thread->state);

	scratch->sample.sessions = sessions;
	thread->open_sessions = sessions;
	if (!sessions) {
		counters->filtered++;
		return false;
	}
	switches->walks++;
	if (here->chance != PROFD_CERTAIN)
		switches->walks_by_chance++;
	profd_count_match(scratch->sample.sessions);
	return true;
}

/* An end that had no room is sent now, or lost. */
static __always_inline void profd_send_unsent(struct profd_thread *thread)
{
	struct profd_switch_counters *switches = profd_switch_counters_here();

	if (profd_send_end(thread->unsent_id, thread->unsent_end_ns) && switches)
		switches->ends_lost++;
	thread->unsent_id = 0;
}

/* The time of a switch is read once, since no other part of it costs as much, and not at all where
 * no block ends or begins, as between runnable threads. 0: it was not read yet. */
static __always_inline __u64 profd_time_of_switch(__u64 now)
{
	return now ? now : bpf_ktime_get_ns();
}

/* Begins a block of the current thread, if it counts for any session. */
static __always_inline void profd_begin_block(void *ctx, struct profd_thread *thread,
					      struct task_struct *task, __u32 state, __u64 now)
{
	struct profd_filter *filter = profd_filter_now();
	struct profd_switch_state *here = profd_switch_state_here();
	struct profd_block_rate *rate = profd_rate_now();
	struct task_struct *leader = task->group_leader;

	if (thread->start_ns) {
		now = profd_time_of_switch(now);
		profd_end_missed_block(thread, task, now);
	}
	if (thread->unsent_id)
		profd_send_unsent(thread);
	if (!filter || !here || !rate)
		return;
	__u32 slots = profd_slots_for(filter, state) & filter->live;

	if (!slots)
		return;
	now = profd_time_of_switch(now);
	if (!profd_is_matched(thread, filter, leader, now))
		profd_match_thread(thread, filter, leader, now);
	slots &= thread->sessions;
	if (!slots)
		return;
	struct pt_regs___kernel *regs = (void *)bpf_task_pt_regs(task);

	thread->id = 0;
	thread->listed_ns = now;
	thread->ran_ns = task->se.sum_exec_runtime;
	thread->open_sessions = slots;
	thread->state = state;
	thread->chosen = 0;
	thread->from_before = 0;
	thread->lost = 0;
	if (profd_choose_current(here, thread, rate, leader->real_cred->uid.val,
				 profd_site_of(regs), now)) {
		if (!profd_count_walk(thread, filter, leader, here, now))
			return;
		profd_sample_block(ctx, thread, task, regs, here, now);
	}
	barrier(); /* an iterator that sees the start sees all else */
	thread->start_ns = now;
}

/* Runs as the thread that is switched away from, whose memory is still there, with the run queue's
 * lock held: nothing here allocates. A thread that is not watched costs two look-ups. */
SEC("tp_btf/sched_switch")
int BPF_PROG(profd_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	struct profd_thread *from = profd_thread_of(prev);
	struct profd_thread *to = profd_thread_of(next);
	__u64 now = 0;

	if (to && to->start_ns) {
		now = profd_time_of_switch(now);
		profd_end_block(to, next, now, true);
	}
	if (from)
		profd_begin_block(ctx, from, prev, profd_block_state_of(preempt, prev_state), now);
	return 0;
}
