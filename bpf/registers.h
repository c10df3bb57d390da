/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * All registers of a frame that was interrupted, by DWARF number: from the kernel's entry stack for
 * the leaf, from the signal frame for the frame below one. Their callers know them too: a register
 * of which a row says nothing is the caller's own, as debuggers take it, and hand-written code
 * counts on it (OpenSSL's AES-GCM has its CFA in rax over a call). Frames beyond know rsp, rbp and
 * rbx.
 */
#ifndef PROFD_REGISTERS_H
#define PROFD_REGISTERS_H

#include "bpf/scratch.h"

#define PROFD_HOW_IN(how, set) ((set) >> (how)&1)
/* The address is the instruction's own, not a return address. */
#define PROFD_EXACT (1U << PROFD_FRAME_INTERRUPTED | 1U << PROFD_FRAME_SIGNAL)
/* All registers are the frame's. */
#define PROFD_WHOLE (PROFD_EXACT | 1U << PROFD_FRAME_SYSCALL)

static __always_inline bool profd_was_interrupted(const struct profd_walk *walk)
{
	return PROFD_HOW_IN(walk->how, PROFD_WHOLE);
}

/* The lowest address where a frame may have saved something. */
static __always_inline __u64 profd_frame_floor(const struct profd_walk *walk)
{
	return walk->sp - (profd_was_interrupted(walk) ? PROFD_RED_ZONE_BYTES : 0);
}

static __always_inline void profd_registers_of_leaf(__u64 *out)
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

/* Fills scratch->registers with those of the frame that was interrupted last. */
static __always_inline void profd_know_registers(struct profd_scratch *scratch)
{
	if (!scratch->walk.signal_frames)
		profd_registers_of_leaf(scratch->registers);
}

static __always_inline void profd_registers_of_signal(struct profd_scratch *scratch)
{
	static const __u8 order[PROFD_DWARF_REGISTERS] = PROFD_SIGCONTEXT_REGISTERS;

#pragma clang loop unroll(full)
	for (int i = 0; i < PROFD_DWARF_REGISTERS; i++)
		scratch->registers[order[i]] = scratch->sigcontext[i];
}

#endif
