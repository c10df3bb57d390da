/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * All registers of an interrupted frame, by DWARF number: those of the leaf are on the kernel's
 * entry stack, those of the frame below a signal frame are in that signal frame. They are also used
 * for the direct caller: a register that a row does not mention is unchanged, as debuggers assume,
 * and hand-written code relies on it (OpenSSL's AES-GCM has its CFA in rax across a call). In all
 * other frames only rsp, rbp and rbx are known.
 */
#ifndef PROFD_REGISTERS_H
#define PROFD_REGISTERS_H

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

#endif
