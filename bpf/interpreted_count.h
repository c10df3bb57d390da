/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What became of stacks with interpreted frames, and of the announcements of their code. */
#ifndef PROFD_INTERPRETED_COUNT_H
#define PROFD_INTERPRETED_COUNT_H

#include "bpf/counters.h"
#include "bpf/interpreters.h"

/* An object whose samples are the starts of blocks sets it before it includes this header. */
#ifndef PROFD_INTERPRETED_OF_BLOCK
#define PROFD_INTERPRETED_OF_BLOCK 0
#endif

/* The counts of reasons lie behind each other, in the order of profd_begin and profd_chain_end. */
#define PROFD_COUNT_OF_BEGIN(begin) ((begin) + PROFD_INTERPRETED_NO_THREAD_STATE - 1)
#define PROFD_COUNT_OF_END(end) ((end) + PROFD_INTERPRETED_FRAME_LIMIT - 1)

_Static_assert(
	PROFD_COUNT_OF_BEGIN(PROFD_BEGIN_NO_THREAD_STATE) == PROFD_INTERPRETED_NO_THREAD_STATE &&
		PROFD_COUNT_OF_BEGIN(PROFD_BEGIN_MISMATCH) == PROFD_INTERPRETED_STATE_MISMATCH &&
		PROFD_COUNT_OF_BEGIN(PROFD_BEGIN_UNREADABLE) == PROFD_INTERPRETED_UNREADABLE_STATE,
	"each result of a begin has its count");
_Static_assert(PROFD_COUNT_OF_END(PROFD_CHAIN_FRAME_LIMIT) == PROFD_INTERPRETED_FRAME_LIMIT &&
		       PROFD_COUNT_OF_END(PROFD_CHAIN_UNREADABLE) == PROFD_INTERPRETED_UNREADABLE &&
		       PROFD_COUNT_OF_END(PROFD_CHAIN_NOT_CODE) == PROFD_INTERPRETED_NOT_CODE &&
		       PROFD_COUNT_OF_END(PROFD_CHAIN_DISORDERED) == PROFD_INTERPRETED_DISORDERED,
	       "each end of a chain has its count");
_Static_assert(PROFD_INTERPRETER_COUNTS == 16, "a mask bounds their index");

static __always_inline void profd_count_interpreted(struct profd_counters *counters, __u64 which,
						    __u64 times)
{
	barrier_var(which);
	counters->interpreted[which & (PROFD_INTERPRETER_COUNTS - 1)] += times;
}

#endif
