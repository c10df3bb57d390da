#include "collectors/xray/app/region.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U /* Linux 6.3 */
#endif

struct region profd_xray_memory = {.fd = -1};

/* Kernels before 6.3 reject the flag; later ones may require it (vm.memfd_noexec). */
static int make_memfd(void) {
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  const int fd = memfd_create("profd-xray", flags | MFD_NOEXEC_SEAL);
  return fd >= 0 || errno != EINVAL ? fd : memfd_create("profd-xray", flags);
}

static bool seal(int fd, uint64_t bytes) {
  return ftruncate(fd, (off_t)bytes) == 0 &&
         fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
}

bool profd_xray_region_open(enum profd_xray_clock clock) {
  if (profd_xray_memory.fd >= 0) return true;
  const uint64_t bytes = profd_xray_region_bytes(PROFD_XRAY_SLOTS, PROFD_XRAY_SLOT_BYTES);
  const int fd = make_memfd();
  if (fd < 0) return false;
  unsigned char* memory = MAP_FAILED;
  if (seal(fd, bytes)) memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    close(fd);
    return false;
  }
  struct profd_xray_region* const header = (struct profd_xray_region*)memory;
  header->magic = PROFD_XRAY_MAGIC;
  header->clock = clock;
  header->slots = PROFD_XRAY_SLOTS;
  header->slot_bytes = PROFD_XRAY_SLOT_BYTES;
  profd_xray_memory.header = header;
  profd_xray_memory.slots = (struct profd_xray_slot*)(memory + sizeof *header);
  profd_xray_memory.buffers = memory + profd_xray_buffers_offset(PROFD_XRAY_SLOTS);
  profd_xray_memory.fd = fd;
  return true;
}

/* Sets the state; FREE begins a new use. False: the state was changed by another thread or profd.
 */
static bool change(struct profd_xray_slot* slot, uint64_t from, enum profd_xray_slot_state state) {
  uint64_t to = (from & ~(uint64_t)PROFD_XRAY_STATE_MASK) | state;
  if (state == PROFD_XRAY_FREE) to += PROFD_XRAY_ONE_USE;
  return __atomic_compare_exchange_n(&slot->state, &from, to, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED);
}

static uint64_t state_of(const struct profd_xray_slot* slot) {
  return __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);
}

void profd_xray_region_reset(void) {
  for (uint32_t i = 0; i < PROFD_XRAY_SLOTS; ++i) {
    struct profd_xray_slot* const slot = &profd_xray_memory.slots[i];
    const uint64_t word = state_of(slot);
    if ((word & PROFD_XRAY_STATE_MASK) != PROFD_XRAY_FULL) continue;
    __atomic_store_n(&slot->bytes, 0, __ATOMIC_RELEASE);
    change(slot, word, PROFD_XRAY_FREE);
  }
  for (int i = 0; i < PROFD_XRAY_STRIPES; ++i) {
    __atomic_store_n(&profd_xray_memory.header->stripes[i].dropped, 0, __ATOMIC_RELAXED);
  }
}

/* A thread that still writes a record gets a new page for it, which is all that stays allocated. */
void profd_xray_region_release(void) {
  if (profd_xray_memory.fd < 0) return;
  const uint64_t from = profd_xray_buffers_offset(PROFD_XRAY_SLOTS);
  const uint64_t bytes = (uint64_t)PROFD_XRAY_SLOTS * PROFD_XRAY_SLOT_BYTES;
  fallocate(profd_xray_memory.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from,
            (off_t)bytes);
}

void profd_xray_region_abandon(void) {
  if (profd_xray_memory.fd < 0) return;
  munmap(profd_xray_memory.header,
         profd_xray_region_bytes(PROFD_XRAY_SLOTS, PROFD_XRAY_SLOT_BYTES));
  close(profd_xray_memory.fd);
  profd_xray_memory = (struct region){.fd = -1};
}

/* Takes the first free slot, so that an app whose records profd reads in time uses few slots, whose
 * memory stays in the caches, and never touches the others. */
struct profd_xray_slot* profd_xray_slot_take(void) {
  for (uint32_t i = 0; i < PROFD_XRAY_SLOTS; ++i) {
    struct profd_xray_slot* const slot = &profd_xray_memory.slots[i];
    const uint64_t word = state_of(slot);
    if ((word & PROFD_XRAY_STATE_MASK) == PROFD_XRAY_FREE && change(slot, word, PROFD_XRAY_LIVE))
      return slot;
  }
  return NULL;
}

void profd_xray_slot_fill(struct profd_xray_slot* slot) {
  change(slot, state_of(slot), PROFD_XRAY_FULL);
}
