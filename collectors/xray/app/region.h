/* The memory that the app shares with profd (wire.h), and the ownership of its slots.
 *
 * The memory is made once in a process, for its first session, and kept, so that no thread can hold
 * a pointer into unmapped memory. A LIVE slot is changed by its owner only. */

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectors/xray/app/wire.h"

struct region {
  int fd; /* -1: not made yet */
  struct profd_xray_region* header;
  struct profd_xray_slot* slots;
  unsigned char* buffers;
};

extern struct region profd_xray_memory;

/* False: the system has no memory or no descriptor left. On the library's thread. */
bool profd_xray_region_open(enum profd_xray_clock clock);

/* Sets the counts to 0 and frees the slots that profd has not read. On the library's thread, while
 * no thread records. */
void profd_xray_region_reset(void);

/* Releases the memory of the buffers, which then read as zeros. On the library's thread. */
void profd_xray_region_release(void);

/* Unmaps the parent's memory in the child of a fork. Async-signal-safe. */
void profd_xray_region_abandon(void);

/* Makes a FREE slot LIVE for the calling thread; null: there is none. Any thread, no locks. */
struct profd_xray_slot* profd_xray_slot_take(void);

/* Called by the owner of a LIVE slot, which profd may then read and free. */
void profd_xray_slot_fill(struct profd_xray_slot* slot);

static inline unsigned char* profd_xray_buffer_of(const struct profd_xray_slot* slot) {
  return profd_xray_memory.buffers +
         (slot - profd_xray_memory.slots) * (ptrdiff_t)PROFD_XRAY_SLOT_BYTES;
}
