/* Calls of instrumented functions as FDR records of version 5, in the calling thread's buffer
 * (region.h).
 *
 * The handlers run on the app's threads, between any two of its instructions: they take no lock,
 * allocate nothing and never wait. A handler that interrupts another one on its thread (a signal's)
 * drops its record and counts it. */

#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "collectors/xray/app/runtime.h"
#include "collectors/xray/app/wire.h"

/* Once, before the first session. False where the system has no memory left. */
bool profd_xray_recorder_open(void);

/* The clock of the records. */
enum profd_xray_clock profd_xray_clock_of_host(void);

/* From now on threads record for this session; 0: for none. */
void profd_xray_record_for(uint32_t session);

void profd_xray_on_call(int32_t function, enum xray_entry entry);
void profd_xray_on_call_with_argument(int32_t function, enum xray_entry entry, uint64_t argument);

/* In the child of a fork, whose one thread has the parent's buffer at hand. */
void profd_xray_recorder_forget(void);
