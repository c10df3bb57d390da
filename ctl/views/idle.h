// Threads that wait for work all the time, as those of pools and event loops do. Of a host they
// have nearly all of the time off the CPU, and say nothing about why something was slow.
//
// Blocks of one stack and one label set are idle if they can be interrupted (state S), wait for
// futex, epoll, poll, sleep, pipe or child, take 100 ms on average, and together half of the
// duration: a stall of 2 x 3 s in a minute is shown. Threads in D state, page faults and locks of
// the kernel are always shown, and so are stacks with a function that takes a lock: many threads
// that wait for one have as much time as a pool.

#pragma once

#include "ctl/views/samples.h"

namespace profd {

// Moves the samples that are idle into Samples::idle. Nothing where these are all samples, where
// the duration is not known, or of CPU time and events.
void fold_idle(Samples& samples);

}  // namespace profd
