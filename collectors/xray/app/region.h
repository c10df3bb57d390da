/* The memory that the app shares with profd (wire.h), and who may write into which part of it.
 *
 * Made once in a process, for its first session, and kept: so no thread can ever hold a pointer
 * into memory that is gone. Only its owner takes a slot back that is LIVE. */

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectors/xray/app/wire.h"

struct region {
  int fd; /* -1: there is none yet */
  struct profd_xray_region* header;
  struct profd_xray_slot* slots;
  unsigned char* buffers;
};

extern struct region profd_xray_memory;

/* False where the system has no memory or no descriptor for it. On the library's thread. */
bool profd_xray_region_open(enum profd_xray_clock clock);

/* Counts begin at 0, and what profd has not read is forgotten. On the library's thread, while
 * nobody records. */
void profd_xray_region_reset(void);

/* Gives the buffers' memory back to the system; they read as zeros. On the library's thread. */
void profd_xray_region_release(void);

/* The parent's, in the child of a fork: lets go of it. Async-signal-safe. */
void profd_xray_region_abandon(void);

/* A FREE slot made LIVE, for the calling thread; null when there is none. Any thread, no locks. */
struct profd_xray_slot* profd_xray_slot_take(void);

/* By the owner of a LIVE slot: profd may read it and give it back. */
void profd_xray_slot_fill(struct profd_xray_slot* slot);

static inline unsigned char* profd_xray_buffer_of(const struct profd_xray_slot* slot) {
  return profd_xray_memory.buffers +
         (slot - profd_xray_memory.slots) * (ptrdiff_t)PROFD_XRAY_SLOT_BYTES;
}
