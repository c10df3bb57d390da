/* Writes calls of instrumented functions as FDR records of version 5 into the calling thread's
 * buffer (region.h).
 *
 * The handlers run on the app's threads at any instruction, so they take no lock, allocate nothing
 * and never wait. A handler that interrupts another one on its thread, in a signal handler, drops
 * its record and counts it. */

#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "collectors/xray/app/runtime.h"
#include "collectors/xray/app/wire.h"

/* To be called once, before the first session. False: the system has no memory left. */
bool profd_xray_recorder_open(void);

/* The clock of the records. */
enum profd_xray_clock profd_xray_clock_of_host(void);

/* Threads record calls under this number of a session from now on; 0: they record none. */
void profd_xray_record_for(uint32_t session);

void profd_xray_on_call(int32_t function, enum xray_entry entry);
void profd_xray_on_call_with_argument(int32_t function, enum xray_entry entry, uint64_t argument);

/* Drops the parent's buffer in the child of a fork. */
void profd_xray_recorder_forget(void);
