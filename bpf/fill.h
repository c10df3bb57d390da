/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Fills in the record of a sample of the current task: its context and its stacks. The words of the
 * record lie in this order: kernel frames, user frames, mapping ids, deferred stack.
 */
#ifndef PROFD_FILL_H
#define PROFD_FILL_H

#include "bpf/deferred.h"
#include "bpf/identity.h"
#include "bpf/interpreted_stack.h"
#include "bpf/unwind.h"

/* `hit_user`: the event was in user mode. */
static __always_inline __u8 profd_context_of_task(struct task_struct *task,
						  struct pt_regs___kernel *regs, bool hit_user)
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
	if (hit_user)
		return PROFD_CONTEXT_USER;
	/* The kernel's entry code sets orig_ax to -1, except for system calls. */
	return (__s64)regs->orig_ax >= 0 ? PROFD_CONTEXT_SYSCALL : PROFD_CONTEXT_TRAP;
}

/* What is known without the registers; the stacks are empty. */
static __always_inline void profd_start_sample(struct profd_scratch *scratch,
					       struct task_struct *task)
{
	struct profd_sample *sample = &scratch->sample;

	sample->header.type = PROFD_RECORD_SAMPLE;
	sample->tid = profd_tid_of(task);
	bpf_get_current_comm(sample->thread, sizeof(sample->thread));
	sample->cpu = bpf_get_smp_processor_id();
	sample->kernel_frames = 0;
	sample->kernel_truncated = 0;
	sample->user_frames = 0;
	sample->mapping_count = 0;
	sample->user_end = PROFD_END_NO_USER_STACK;
	sample->deferred_words = 0;
	sample->interpreted = PROFD_INTERPRETED_NONE;
	scratch->mapping_count = 0;
}

static __always_inline void profd_walk_kernel(void *ctx, struct profd_scratch *scratch)
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

/* Appends all that comes behind the kernel's frames. The context is known. */
static __always_inline void profd_fill_user_part(struct profd_scratch *scratch,
						 struct profd_cache *cache,
						 struct task_struct *task,
						 struct pt_regs___kernel *regs)
{
	struct profd_sample *sample = &scratch->sample;
	bool has_user_stack = sample->context <= PROFD_CONTEXT_TRAP;

	if (has_user_stack) {
		profd_enter_space(scratch, cache, task);
		profd_walk_user(scratch, cache, regs);
	}
	profd_append_mappings(scratch);
	if (sample->user_end == PROFD_END_DEFERRED)
		profd_append_deferred(sample->kernel_frames + sample->user_frames +
				      sample->mapping_count);
	if (has_user_stack && profd_may_interpret(scratch, cache))
		profd_send_interpreted(sample->sessions);
}

/* The size of the record, bounded for the verifier. */
static __always_inline __u64 profd_sample_bytes(const struct profd_sample *sample)
{
	__u64 words = sample->kernel_frames + sample->user_frames + sample->mapping_count +
		      sample->deferred_words;

	if (words > PROFD_MAX_WORDS + PROFD_MAX_DEFERRED_WORDS)
		words = PROFD_MAX_WORDS + PROFD_MAX_DEFERRED_WORDS;
	return sizeof(*sample) + words * 8;
}

#endif
