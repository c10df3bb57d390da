/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The user stack, by our own walk: never bpf_get_stack() with the user flag, which panics kernels
 * where uprobes are active. A step turns {ip, sp, bp} of a frame into those of its caller; by frame
 * pointer here.
 */
#ifndef PROFD_UNWIND_H
#define PROFD_UNWIND_H

#include "bpf/mapping.h"
#include "bpf/scratch.h"

#define PROFD_ADDRESS_MASK ((1ULL << PROFD_FRAME_ADDRESS_BITS) - 1)

struct profd_walk {
	struct profd_scratch *scratch;
	__u64 ip, sp, bp;
	__u64 vma_start,
		vma_bytes;  /* of the frame before: most stacks stay in one mapping for a while */
	__u64 window_start; /* the user address of scratch->window's first byte */
	__u32 mapping;	    /* that mapping's index */
	__u32 how;	    /* profd_frame_how of ip */
	__u32 next;	    /* index of the next word in scratch->words */
	__u32 frames;
	__u32 end; /* profd_user_end, when the walk ended here */
};

/*
 * Copies a window of stack from an address on. What cannot be read whole is read up to the end of
 * its page, into the window's upper end, so that one check of the offset serves both: the verifier
 * can't relate an offset to a size. Returns the address that the window's first byte stands for, 0
 * where nothing could be read.
 */
__noinline __u64 profd_read_window(__u64 address)
{
	struct profd_scratch *scratch = profd_scratch_here();

	if (!scratch)
		return 0;
	char *window = (char *)scratch->window;

	if (!bpf_probe_read_user(window, PROFD_WINDOW_BYTES, (void *)address))
		return address;
	__u64 rest = PROFD_PAGE_BYTES - (address & (PROFD_PAGE_BYTES - 1));

	if (rest >= PROFD_WINDOW_BYTES)
		return 0;
	barrier_var(rest); /* or clang computes from the address again, past the check */
	if (bpf_probe_read_user(window + (PROFD_WINDOW_BYTES - rest), rest, (void *)address))
		return 0;
	return address - (PROFD_WINDOW_BYTES - rest);
}

/* The two words at a stack address, which is a multiple of 8. */
static __always_inline bool profd_read_pair(struct profd_walk *walk, __u64 address, __u64 *first,
					    __u64 *second)
{
	__u64 offset = address - walk->window_start;

	if (offset > PROFD_WINDOW_BYTES - 16) {
		walk->window_start = profd_read_window(address);
		offset = address - walk->window_start;
		if (offset > PROFD_WINDOW_BYTES - 16)
			return false;
	}
	offset /= 8;
	*first = walk->scratch->window[offset];
	*second = walk->scratch->window[offset + 1];
	return true;
}

/* To the caller, by the frame pointer. 0, or a profd_user_end. Stacks go up, so every walk ends. */
static __always_inline __u32 profd_frame_pointer_step(struct profd_walk *walk)
{
	__u64 bp = walk->bp;

	if (!bp)
		return PROFD_END_FP_ZERO;
	if (bp % 8 || bp < walk->sp)
		return PROFD_END_NO_FRAME_POINTER;
	if (!profd_read_pair(walk, bp, &walk->bp, &walk->ip))
		return PROFD_END_STACK_UNREADABLE;
	walk->sp = bp + 16;
	walk->how = PROFD_FRAME_POINTER;
	return 0;
}

/* Finds the mapping of walk->ip. 0, or a profd_user_end. A return address is looked up one byte
 * before: the call may be its function's last instruction. */
static __always_inline __u32 profd_locate(struct profd_walk *walk)
{
	__u64 pc = walk->ip - (walk->how != PROFD_FRAME_INTERRUPTED);

	if (pc - walk->vma_start < walk->vma_bytes)
		return 0;
	int index = profd_find_mapping(pc);

	if (index < 0)
		return -index;
	struct profd_vma *vma = &walk->scratch->vmas[index & PROFD_FRAME_MAPPING_MASK];

	walk->vma_start = vma->start;
	walk->vma_bytes = vma->bytes;
	walk->mapping = index;
	return 0;
}

static __always_inline bool profd_push_frame(struct profd_walk *walk, __u32 mapping)
{
	__u32 at = walk->next;

	if (at >= PROFD_MAX_KERNEL_FRAMES + PROFD_MAX_USER_FRAMES)
		return false;
	walk->scratch->words[at] = (walk->ip & PROFD_ADDRESS_MASK) |
				   (__u64)mapping << PROFD_FRAME_MAPPING_SHIFT |
				   (__u64)walk->how << PROFD_FRAME_HOW_SHIFT;
	walk->next = at + 1;
	walk->frames++;
	return true;
}

/* One frame: an address that lies in no executable mapping is no frame, but for the leaf, which is
 * known. */
static long profd_walk_frame(__u32 index, struct profd_walk *walk)
{
	__u32 end = profd_locate(walk);

	if (end) {
		if (!walk->frames)
			profd_push_frame(walk, PROFD_NO_MAPPING);
	} else {
		profd_push_frame(walk, walk->mapping);
		end = profd_frame_pointer_step(walk);
	}
	if (!end)
		return 0;
	walk->end = end;
	return 1;
}

/* Appends the user stack to the sample. */
static __always_inline void profd_walk_user(struct profd_scratch *scratch,
					    struct pt_regs___kernel *regs)
{
	struct profd_sample *sample = &scratch->sample;
	struct profd_walk walk = {
		.scratch = scratch,
		.ip = regs->ip,
		.sp = regs->sp,
		.bp = regs->bp,
		.how = sample->context == PROFD_CONTEXT_SYSCALL ? PROFD_FRAME_SYSCALL
								: PROFD_FRAME_INTERRUPTED,
		.next = sample->kernel_frames,
		.end = PROFD_END_DEPTH_LIMIT,
	};

	bpf_loop(PROFD_MAX_USER_FRAMES, profd_walk_frame, &walk, 0);
	sample->user_frames = walk.frames;
	sample->user_end = walk.end;
}

#endif
