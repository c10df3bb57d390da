/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Stack memory, read a window at a time: a read of 1 KiB costs little more than one of 8 bytes, and
 * serves several frames.
 */
#ifndef PROFD_WINDOW_H
#define PROFD_WINDOW_H

#include "bpf/scratch.h"

#define PROFD_LINE_BYTES 64

/*
 * Copies a window of stack from the line that holds an address on. What cannot be read whole is
 * read up to the end of its page, into the window's upper end, so that one check of the offset
 * serves both: the verifier can't relate an offset to a size. What was not read is 0, since the
 * helper clears its target when it fails. Returns the address that the window's first byte stands
 * for, 0 where nothing could be read.
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
	barrier_var(rest); /* or clang computes from the address again, past the check */
	if (bpf_probe_read_user(window + (PROFD_WINDOW_BYTES - rest), rest, (void *)address))
		return 0;
	return address - (PROFD_WINDOW_BYTES - rest);
}

static __always_inline bool profd_window_holds(const struct profd_walk *walk, __u64 slot)
{
	return slot - walk->window_start <= PROFD_WINDOW_BYTES - 8;
}

/* Has the slots from one to another, less than a window apart, in the window. False where they
 * can't be read. */
static __always_inline bool profd_have_slots(struct profd_walk *walk, __u64 low, __u64 high)
{
	if (profd_window_holds(walk, low) && profd_window_holds(walk, high))
		return true;
	walk->window_start = profd_read_window(low);
	return profd_window_holds(walk, low) && profd_window_holds(walk, high);
}

/* The word of a slot that the window has. */
static __always_inline __u64 profd_window_word(const struct profd_scratch *scratch, __u64 slot)
{
	__u64 offset = slot - scratch->walk.window_start;

	if (offset > PROFD_WINDOW_BYTES - 8)
		return 0; /* never so; tells the verifier */
	return *(const __u64 *)((const char *)scratch->window + offset);
}

#endif
