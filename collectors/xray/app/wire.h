/* What an instrumented app and profd share: a file in memory that the app writes and profd reads,
 * and the packets of the socket over which it changes hands.
 *
 * The file is a memfd of the app's, sealed so that its size can't change. It begins with a
 * profd_xray_region, a table of slots follows, then the slots' buffers, `slot_bytes` each, from the
 * next page on. A thread of the app owns one slot at a time and writes plain FDR records of version
 * 5 into its buffer (NewBuffer, WallClock, Pid and NewCPUId first); `bytes` tells, after each
 * record, how many of them are whole. So whatever was written before the app died is there.
 *
 *     state:   FREE -> LIVE (a thread takes it) -> FULL (it has gone on to the next) -> FREE (profd
 * has read it)
 *
 * A state word also counts the uses of its slot, so that nobody who looked at an earlier use can
 * change a later one. Neither side waits for the other: a thread that finds no free slot drops its
 * records and counts them.
 *
 * The app is not believed: whoever reads the file copies first and checks then, and leaves the
 * indices to itself. */

#pragma once

#include <stdint.h>

#ifdef __cplusplus
#define PROFD_XRAY_ASSERT(condition) static_assert(condition, #condition)
#else
#define PROFD_XRAY_ASSERT(condition) _Static_assert(condition, #condition)
#endif

/* "profdxr1" as it stands in the file, little endian. The last digit is the version. */
#define PROFD_XRAY_MAGIC UINT64_C(0x3172786466726f70)
#define PROFD_XRAY_STRIPES 16
#define PROFD_XRAY_SLOT_BYTES 65536
#define PROFD_XRAY_SLOTS 1024 /* 64 MiB, of which what is written takes memory */
#define PROFD_XRAY_PAGE_BYTES 4096

enum profd_xray_clock {
  PROFD_XRAY_CLOCK_TSC = 1,       /* the invariant time stamp counter */
  PROFD_XRAY_CLOCK_MONOTONIC = 2, /* nanoseconds */
};

enum profd_xray_slot_state {
  PROFD_XRAY_FREE = 0,
  PROFD_XRAY_LIVE = 1,
  PROFD_XRAY_FULL = 2,
  PROFD_XRAY_STATE_MASK = 3, /* the rest of the word is the count of uses */
  PROFD_XRAY_ONE_USE = 4,
};

/* A line of the cache each, or counting threads would hold each other up. */
struct profd_xray_stripe {
  uint64_t dropped; /* records */
  uint64_t reserved[7];
};

struct profd_xray_region {
  uint64_t magic;
  uint32_t clock; /* profd_xray_clock */
  uint32_t slots;
  uint32_t slot_bytes;
  uint32_t reserved[11];
  struct profd_xray_stripe stripes[PROFD_XRAY_STRIPES];
  uint8_t padding[PROFD_XRAY_PAGE_BYTES - 64 - 64 * PROFD_XRAY_STRIPES];
};

struct profd_xray_slot {
  uint64_t state;    /* profd_xray_slot_state, and the uses */
  uint64_t bytes;    /* of whole records; 0 while FREE, and until the rest below is set */
  uint64_t thread;   /* a number of the app's for each thread, not used again */
  uint64_t sequence; /* of the buffer among its thread's in this session, from 0 */
  uint64_t dropped;  /* records that the thread dropped since its buffer before */
  uint32_t session;
  uint32_t tid; /* in the app's PID namespace */
  uint64_t reserved[2];
};

PROFD_XRAY_ASSERT(sizeof(struct profd_xray_stripe) == 64);
PROFD_XRAY_ASSERT(sizeof(struct profd_xray_region) == PROFD_XRAY_PAGE_BYTES);
PROFD_XRAY_ASSERT(sizeof(struct profd_xray_slot) == 64);

/* Where the first buffer begins. */
static inline uint64_t profd_xray_buffers_offset(uint32_t slots) {
  const uint64_t bytes =
      sizeof(struct profd_xray_region) + (uint64_t)slots * sizeof(struct profd_xray_slot);
  return (bytes + PROFD_XRAY_PAGE_BYTES - 1) / PROFD_XRAY_PAGE_BYTES * PROFD_XRAY_PAGE_BYTES;
}

static inline uint64_t profd_xray_region_bytes(uint32_t slots, uint32_t slot_bytes) {
  return profd_xray_buffers_offset(slots) + (uint64_t)slots * slot_bytes;
}

/* The socket: seqpacket, one packet a message. An app connects and says nothing; its peer
 * credentials tell who it is. Then profd asks and the app answers:
 *
 *     BEGIN            -> READY with the memfd, or REFUSED
 *     PATCH functions  -> PATCHED, one for each packet
 *     END              -> ENDED: nothing is patched any more
 *     RELEASE             no answer; the app gives the buffers' memory back
 *
 * The app unpatches and releases by itself when the connection ends. Answers to an earlier session
 * may still be on the way when a new one begins; their number tells. */

#define PROFD_XRAY_APP_SOCKET "/run/profd/app.sock"
#define PROFD_XRAY_FUNCTIONS_A_PACKET 4096

enum profd_xray_command_kind {
  PROFD_XRAY_BEGIN = 1,
  PROFD_XRAY_PATCH = 2, /* `count` functions; none at all: every one */
  PROFD_XRAY_END = 3,
  PROFD_XRAY_RELEASE = 4,
};

enum profd_xray_answer_kind {
  PROFD_XRAY_READY = 1,
  PROFD_XRAY_PATCHED = 2,
  PROFD_XRAY_ENDED = 3,
  PROFD_XRAY_REFUSED = 4,
};

enum profd_xray_refusal {
  PROFD_XRAY_NOT_INSTRUMENTED = 1, /* no XRay runtime, or no function */
  PROFD_XRAY_OTHER_MODE = 2,       /* the app itself uses XRay, in another mode */
  PROFD_XRAY_NO_MEMORY = 3,
};

struct profd_xray_command {
  uint32_t kind; /* profd_xray_command_kind */
  uint32_t session;
  uint32_t count;
  int32_t functions[PROFD_XRAY_FUNCTIONS_A_PACKET]; /* the packet ends after `count` */
};

struct profd_xray_answer {
  uint32_t kind; /* profd_xray_answer_kind */
  uint32_t session;
  uint32_t value;    /* PATCHED: how many; REFUSED: profd_xray_refusal */
  uint32_t function; /* READY: the highest number of a function */
  uint64_t
      first_function; /* READY: address of function 1, which tells where the program was loaded */
};

PROFD_XRAY_ASSERT(sizeof(struct profd_xray_answer) == 24);
