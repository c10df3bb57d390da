/* The protocol between an instrumented app and profd: a file in memory that the app writes and
 * profd reads, and the packets of the socket over which the app sends it.
 *
 * The file is a memfd of the app, sealed so that its size can't change. It begins with a
 * profd_xray_region. A table of slots follows, then from the next page on the buffers of the slots,
 * `slot_bytes` each. A thread of the app owns one slot at a time and writes plain FDR records of
 * version 5 into its buffer (NewBuffer, WallClock, Pid and NewCPUId first). It sets `bytes` after
 * each record, so all records that were written before the app died can be read.
 *
 *     FREE -> LIVE   a thread takes the slot
 *     LIVE -> FULL   the thread continues in another slot
 *     FULL -> FREE   profd has read the buffer
 *
 * The state word also counts the uses of the slot, so that neither side can change a later use than
 * the one it has read. Neither side waits for the other: a thread that finds no free slot drops its
 * records and counts them.
 *
 * The reader does not trust the app: it copies the content before it checks it, and keeps its own
 * reading positions. */

#pragma once

#include <stdint.h>

#ifdef __cplusplus
#define PROFD_XRAY_ASSERT(condition) static_assert(condition, #condition)
#else
#define PROFD_XRAY_ASSERT(condition) _Static_assert(condition, #condition)
#endif

/* "profdxr1" in little endian. The last digit is the version. */
#define PROFD_XRAY_MAGIC UINT64_C(0x3172786466726f70)
#define PROFD_XRAY_STRIPES 16
#define PROFD_XRAY_SLOT_BYTES 65536
#define PROFD_XRAY_SLOTS 1024 /* 64 MiB; only written pages take memory */
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

/* A cache line each, so that counting threads do not slow down each other. */
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
  uint64_t bytes;    /* of whole records; 0 while FREE, and until the members below are set */
  uint64_t thread;   /* a number that the app gives to each thread and never uses again */
  uint64_t sequence; /* number of the buffer within its thread and session, from 0 */
  uint64_t dropped;  /* records that the thread dropped since its previous buffer */
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

/* The socket is of type seqpacket and has one packet for each message. An app connects and sends
 * nothing; its peer credentials identify it. Then profd sends commands and the app answers:
 *
 *     BEGIN            -> READY with the memfd, or REFUSED
 *     PATCH functions  -> PATCHED, one for each packet
 *     END              -> ENDED: nothing is patched any more
 *     RELEASE             no answer; the app releases the memory of the buffers
 *
 * The app unpatches and releases by itself when the connection ends. Answers to an earlier session,
 * which their session number identifies, may arrive after a new session has begun. */

#define PROFD_XRAY_APP_SOCKET "/run/profd/app.sock"
#define PROFD_XRAY_FUNCTIONS_A_PACKET 4096

enum profd_xray_command_kind {
  PROFD_XRAY_BEGIN = 1,
  PROFD_XRAY_PATCH = 2, /* `count` functions; 0: all functions */
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
  PROFD_XRAY_NOT_INSTRUMENTED = 1, /* the app has no instrumented function */
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
  uint32_t value;          /* PATCHED: how many; REFUSED: profd_xray_refusal */
  uint32_t function;       /* READY: the highest number of a function */
  uint64_t first_function; /* READY: address of function 1, from which the load address follows */
};

PROFD_XRAY_ASSERT(sizeof(struct profd_xray_answer) == 24);
