/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Steps by rules of the dictionary. These are rare, so each stack slot is read by itself.
 */
#ifndef PROFD_RULES_H
#define PROFD_RULES_H

#include "bpf/frame.h"
#include "bpf/tables.h"

#define PROFD_FRAME struct profd_walk
#define PROFD_STEPPER struct profd_scratch

static __always_inline struct profd_walk *profd_frame_of(struct profd_scratch *scratch)
{
	return &scratch->walk;
}

static __always_inline bool profd_read_word(struct profd_scratch *scratch, __u64 address,
					    __u64 *word)
{
	return !bpf_probe_read_user(word, sizeof(*word), (void *)address);
}

static __always_inline __u64 profd_interrupted_register(struct profd_scratch *scratch, __u32 number)
{
	profd_load_registers(scratch);
	return scratch->registers[number % PROFD_DWARF_REGISTERS];
}

/* To the frame that the signal interrupted, which may be on another stack. */
static __always_inline __u32 profd_step_by_signal(struct profd_scratch *scratch, __s32 offset)
{
	struct profd_walk *walk = &scratch->walk;

	if (walk->signal_frames >= PROFD_MAX_SIGNAL_FRAMES)
		return PROFD_END_CFA_NOT_ABOVE;
	if (bpf_probe_read_user(scratch->sigcontext, sizeof(scratch->sigcontext),
				(void *)(walk->sp + offset)))
		return PROFD_END_STACK_UNREADABLE;
	profd_load_signal_registers(scratch);
	walk->ip = scratch->sigcontext[PROFD_SIGCONTEXT_IP];
	walk->sp = scratch->registers[PROFD_DWARF_RSP];
	walk->bp = scratch->registers[PROFD_DWARF_RBP];
	walk->bx = scratch->registers[PROFD_DWARF_RBX];
	walk->lost = 0;
	walk->how = PROFD_FRAME_SIGNAL;
	walk->signal_frames++;
	/* The current window may belong to another stack. */
	walk->window_start = profd_read_window(profd_frame_floor(walk));
	return PROFD_NOT_ENDED;
}

#include "bpf/rule_step.h"

/* Returns PROFD_NOT_ENDED or a profd_user_end. Global, so that it is verified once. */
__noinline int profd_follow_rule(__u32 index)
{
	struct profd_scratch *scratch = profd_scratch_here();
	const struct profd_rule *rule = bpf_map_lookup_elem(&profd_rules, &index);

	return scratch && rule ? profd_step_by_rule(scratch, rule) : PROFD_END_NO_ROW;
}

#endif
