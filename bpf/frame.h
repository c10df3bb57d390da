/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The registers of frames, and the stack memory that they are read from.
 *
 * The registers of an interrupted frame, by DWARF number: those of the leaf are on the kernel's
 * entry stack, those of the frame below a signal frame are in that signal frame. They are also used
 * for the direct caller: a register that a row does not mention is unchanged, as debuggers assume,
 * and hand-written code relies on it (OpenSSL's AES-GCM has its CFA in rax across a call). In all
 * other frames only rsp, rbp and rbx are known.
 */
#ifndef PROFD_FRAME_H
#define PROFD_FRAME_H

#include "bpf/scratch.h"

#define PROFD_HOW_IN(how, set) ((set) >> (how)&1)
/* The address is that of the instruction, not a return address. */
#define PROFD_HOW_EXACT (1U << PROFD_FRAME_INTERRUPTED | 1U << PROFD_FRAME_SIGNAL)
/* The frame was interrupted: all its registers are known. */
#define PROFD_HOW_INTERRUPTED (PROFD_HOW_EXACT | 1U << PROFD_FRAME_SYSCALL)

static __always_inline bool profd_was_interrupted(const struct profd_walk *walk)
{
	return PROFD_HOW_IN(walk->how, PROFD_HOW_INTERRUPTED);
}

/* The lowest address at which a frame may have saved registers. */
static __always_inline __u64 profd_frame_floor(const struct profd_walk *walk)
{
	return walk->sp - (profd_was_interrupted(walk) ? PROFD_RED_ZONE_BYTES : 0);
}

static __always_inline void profd_load_leaf_registers(__u64 *out)
{
	struct pt_regs___kernel *regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());

	out[0] = regs->ax;
	out[1] = regs->dx;
	out[2] = regs->cx;
	out[3] = regs->bx;
	out[4] = regs->si;
	out[5] = regs->di;
	out[6] = regs->bp;
	out[7] = regs->sp;
	out[8] = regs->r8;
	out[9] = regs->r9;
	out[10] = regs->r10;
	out[11] = regs->r11;
	out[12] = regs->r12;
	out[13] = regs->r13;
	out[14] = regs->r14;
	out[15] = regs->r15;
}

/* Fills scratch->registers with those of the last interrupted frame. A signal frame has done so
 * when the walk passed it. */
static __always_inline void profd_load_registers(struct profd_scratch *scratch)
{
	if (!scratch->walk.signal_frames)
		profd_load_leaf_registers(scratch->registers);
}

static __always_inline void profd_load_signal_registers(struct profd_scratch *scratch)
{
	static const __u8 order[PROFD_DWARF_REGISTERS] = PROFD_SIGCONTEXT_REGISTERS;

#pragma clang loop unroll(full)
	for (int i = 0; i < PROFD_DWARF_REGISTERS; i++)
		scratch->registers[order[i]] = scratch->sigcontext[i];
}

/*
 * Stack memory is read in windows of 1 KiB: such a read costs little more than one of 8 bytes, and
 * serves several frames.
 */
#define PROFD_LINE_BYTES 64

/*
 * Reads a window of stack memory that starts at the cache line of an address. If not all of it is
 * readable, only the rest of the page is read, to the upper end of the window: so one check of an
 * offset serves both cases, as the verifier can't relate an offset to a size. The unread part is 0,
 * because a failed helper clears its buffer. Returns the address of the window's first byte, 0 if
 * nothing could be read.
 */
__noinline __u64 profd_read_window(__u64 address)
{
	struct profd_scratch *scratch = profd_scratch_here();

	if (!scratch)
		return 0;
	char *window = (char *)scratch->window;

	address &= ~(PROFD_LINE_BYTES - 1ULL);
	if (!bpf_probe_read_user(window, PROFD_WINDOW_BYTES, (void *)address))
		return address;
	__u64 rest = PROFD_PAGE_BYTES - (address & (PROFD_PAGE_BYTES - 1));

	if (rest >= PROFD_WINDOW_BYTES)
		return 0;
	barrier_var(rest); /* otherwise clang computes it again behind the check */
	if (bpf_probe_read_user(window + (PROFD_WINDOW_BYTES - rest), rest, (void *)address))
		return 0;
	return address - (PROFD_WINDOW_BYTES - rest);
}

static __always_inline bool profd_window_holds(const struct profd_walk *walk, __u64 slot)
{
	return slot - walk->window_start <= PROFD_WINDOW_BYTES - 8;
}

/* Loads the window that contains the slots `low` to `high`, which are less than a window apart.
 * False if they can't be read. */
static __always_inline bool profd_load_slots(struct profd_walk *walk, __u64 low, __u64 high)
{
	if (profd_window_holds(walk, low) && profd_window_holds(walk, high))
		return true;
	walk->window_start = profd_read_window(low);
	return profd_window_holds(walk, low) && profd_window_holds(walk, high);
}

/* The word of a slot in the window. */
static __always_inline __u64 profd_window_word(const struct profd_scratch *scratch, __u64 slot)
{
	__u64 offset = slot - scratch->walk.window_start;

	if (offset > PROFD_WINDOW_BYTES - 8)
		return 0; /* never true; a bound for the verifier */
	return *(const __u64 *)((const char *)scratch->window + offset);
}

#endif
