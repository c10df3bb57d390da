/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Reads stack memory in windows of 1 KiB: such a read costs little more than one of 8 bytes, and
 * serves several frames.
 */
#ifndef PROFD_WINDOW_H
#define PROFD_WINDOW_H

#include "bpf/scratch.h"

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
