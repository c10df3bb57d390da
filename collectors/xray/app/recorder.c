#include "collectors/xray/app/recorder.h"

#include <limits.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cpuid.h>
#include <pthread.h>
#include <string.h>
#include <x86intrin.h>

#include "collectors/xray/app/region.h"

/* FDR version 5: the first byte of a metadata record is kind << 1 | 1. */
enum {
  kNewBuffer = 0 << 1 | 1,
  kNewCpu = 2 << 1 | 1,
  kTscWrap = 3 << 1 | 1,
  kWallClock = 4 << 1 | 1,
  kArgument = 6 << 1 | 1,
  kPid = 9 << 1 | 1,
  kMetadataBytes = 16,
  kCallBytes = 8,
  kPreambleBytes = 4 * kMetadataBytes,
  /* A change of the CPU or a jump of the clock, the call, its argument. */
  kMostBytes = kMetadataBytes + kCallBytes + kMetadataBytes,
};

/* Calls that a thread drops before it searches for a free slot again. A search takes a microsecond
 * if all slots are in use. */
enum { kCallsBetweenSearches = 256 };

struct tick {
  uint64_t time;
  uint32_t cpu;
};

struct recording_thread {
  unsigned char* next; /* in the slot's buffer */
  unsigned char* end;
  struct profd_xray_slot* slot; /* LIVE and owned by the thread; may be of an earlier session */
  uint64_t last_time;
  uint32_t last_cpu;
  uint32_t session; /* of the records in the slot */
  uint64_t number;
  uint64_t sequence;
  uint64_t dropped; /* since the last buffer; a signal handler may add to it */
  uint32_t calls_to_skip;
  bool busy;
  bool has_destructor; /* thread_key's, which gives the slot back */
  bool is_ending;      /* the last destructors of the thread run */
};

/* The session for which threads record; 0: none. It is in a page that is zeroed in the child of any
 * fork or clone, so that a child never writes into its parent's memory, even if no handler of
 * pthread_atfork ran. */
struct control {
  uint32_t session;
};

static struct control* control;
static enum profd_xray_clock clock_kind;
static pthread_key_t thread_key;
static uint64_t threads;

/* Initial-exec: the first use in a thread makes no call, so it does not allocate memory. */
static __thread struct recording_thread self __attribute__((tls_model("initial-exec")));

/* The destructors of a thread's other keys may call instrumented functions, so this runs in each
 * round of destructors, and ends the recording in the last one. */
static void give_slot_back(void* value) {
  const uintptr_t round = (uintptr_t)value;
  struct recording_thread* const thread = &self;
  if (round < PTHREAD_DESTRUCTOR_ITERATIONS) {
    pthread_setspecific(thread_key, (void*)(round + 1));
  } else {
    thread->is_ending = true;
  }
  thread->busy = true;
  if (thread->slot != NULL) profd_xray_slot_fill(thread->slot);
  thread->slot = NULL;
  thread->next = thread->end = NULL;
  thread->busy = false;
}

static bool has_invariant_tsc(void) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(0x80000007, &a, &b, &c, &d) || (d & 1U << 8) == 0) return false;
  return __get_cpuid(0x80000001, &a, &b, &c, &d) && (d & 1U << 27) != 0; /* rdtscp */
}

bool profd_xray_recorder_open(void) {
  clock_kind = has_invariant_tsc() ? PROFD_XRAY_CLOCK_TSC : PROFD_XRAY_CLOCK_MONOTONIC;
  if (pthread_key_create(&thread_key, give_slot_back) != 0) return false;
  void* const page =
      mmap(NULL, PROFD_XRAY_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED || madvise(page, PROFD_XRAY_PAGE_BYTES, MADV_WIPEONFORK) != 0)
    return false;
  control = page;
  return true;
}

enum profd_xray_clock profd_xray_clock_of_host(void) { return clock_kind; }

void profd_xray_record_for(uint32_t session) {
  __atomic_store_n(&control->session, session, __ATOMIC_RELEASE);
}

void profd_xray_recorder_forget(void) { memset(&self, 0, sizeof self); }

static struct tick tick_now(void) {
  struct tick tick = {0, 0};
  if (clock_kind == PROFD_XRAY_CLOCK_TSC) {
    tick.time = __rdtscp(&tick.cpu); /* Linux stores the node from bit 12 on */
    tick.cpu &= 0xfff;
    return tick;
  }
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  tick.time = (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
  return tick;
}

static void drop(struct recording_thread* thread) {
  const uint32_t stripe = (uint32_t)thread->number % PROFD_XRAY_STRIPES;
  __atomic_fetch_add(&thread->dropped, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&profd_xray_memory.header->stripes[stripe].dropped, 1, __ATOMIC_RELAXED);
}

static unsigned char* metadata(struct recording_thread* thread, uint8_t kind) {
  unsigned char* const record = thread->next;
  memset(record, 0, kMetadataBytes);
  record[0] = kind;
  thread->next += kMetadataBytes;
  return record + 1;
}

static void write_cpu(struct recording_thread* thread, struct tick tick) {
  unsigned char* const data = metadata(thread, kNewCpu);
  const uint16_t cpu = (uint16_t)tick.cpu;
  memcpy(data, &cpu, sizeof cpu);
  memcpy(data + 2, &tick.time, sizeof tick.time);
  thread->last_cpu = tick.cpu;
  thread->last_time = tick.time;
}

static void publish(struct recording_thread* thread, const unsigned char* start) {
  __atomic_store_n(&thread->slot->bytes, (uint64_t)(thread->next - start), __ATOMIC_RELEASE);
}

static void write_preamble(struct recording_thread* thread, struct tick tick) {
  const int32_t tid = (int32_t)thread->slot->tid;
  const int32_t pid = getpid();
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  const int64_t seconds = time.tv_sec;
  const int32_t microseconds = (int32_t)(time.tv_nsec / 1000);
  memcpy(metadata(thread, kNewBuffer), &tid, sizeof tid);
  unsigned char* const wall = metadata(thread, kWallClock);
  memcpy(wall, &seconds, sizeof seconds);
  memcpy(wall + sizeof seconds, &microseconds, sizeof microseconds);
  memcpy(metadata(thread, kPid), &pid, sizeof pid);
  write_cpu(thread, tick);
}

static bool take_slot(struct recording_thread* thread) {
  if (thread->is_ending) return false;
  if (!thread->has_destructor) {
    pthread_setspecific(thread_key, (void*)(uintptr_t)1);
    thread->number = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
    thread->has_destructor = true;
  }
  if (thread->calls_to_skip != 0) {
    --thread->calls_to_skip;
    return false;
  }
  thread->slot = profd_xray_slot_take();
  if (thread->slot == NULL) thread->calls_to_skip = kCallsBetweenSearches;
  return thread->slot != NULL;
}

/* A slot of an earlier session is used again, since it is not read any more. */
static bool begin_buffer(struct recording_thread* thread, uint32_t session, struct tick tick) {
  const bool is_current = thread->session == session;
  if (thread->slot != NULL && is_current) {
    profd_xray_slot_fill(thread->slot);
    thread->slot = NULL;
  }
  thread->next = thread->end = NULL;
  if (thread->slot == NULL && !take_slot(thread)) return false;
  if (!is_current) {
    thread->sequence = 0;
    __atomic_store_n(&thread->dropped, 0, __ATOMIC_RELAXED);
  }
  struct profd_xray_slot* const slot = thread->slot;
  unsigned char* const start = profd_xray_buffer_of(slot);
  __atomic_store_n(&slot->bytes, 0, __ATOMIC_RELEASE);
  thread->session = session;
  thread->next = start;
  thread->end = start + PROFD_XRAY_SLOT_BYTES;
  slot->thread = thread->number;
  slot->sequence = thread->sequence++;
  slot->dropped = __atomic_exchange_n(&thread->dropped, 0, __ATOMIC_RELAXED);
  slot->tid = (uint32_t)syscall(SYS_gettid);
  __atomic_store_n(&slot->session, session, __ATOMIC_RELEASE);
  write_preamble(thread, tick);
  publish(thread, start);
  return true;
}

/* Deltas have 32 bits, and the clock of another CPU may be behind. */
static uint32_t delta_of(struct recording_thread* thread, struct tick tick) {
  if (tick.cpu != thread->last_cpu) {
    write_cpu(thread, tick);
  } else if (tick.time - thread->last_time > UINT32_MAX) {
    memcpy(metadata(thread, kTscWrap), &tick.time, sizeof tick.time);
    thread->last_time = tick.time;
  }
  const uint32_t delta = (uint32_t)(tick.time - thread->last_time);
  thread->last_time = tick.time;
  return delta;
}

static void write_call(struct recording_thread* thread, struct tick tick, int32_t function,
                       enum xray_entry entry, const uint64_t* argument) {
  const uint64_t delta = delta_of(thread, tick);
  const uint64_t record =
      delta << 32 | ((uint64_t)function & 0xfffffff) << 4 | (uint64_t)(entry & 7) << 1;
  memcpy(thread->next, &record, kCallBytes);
  thread->next += kCallBytes;
  if (argument != NULL) memcpy(metadata(thread, kArgument), argument, sizeof *argument);
  publish(thread, thread->end - PROFD_XRAY_SLOT_BYTES);
}

static void record(int32_t function, enum xray_entry entry, const uint64_t* argument) {
  const uint32_t session = __atomic_load_n(&control->session, __ATOMIC_ACQUIRE);
  if (session == 0) return;
  struct recording_thread* const thread = &self;
  if (thread->busy) {
    drop(thread);
    return;
  }
  thread->busy = true;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  const struct tick tick = tick_now();
  const bool has_room = thread->session == session && thread->end - thread->next >= kMostBytes;
  if (__builtin_expect(has_room, 1) || begin_buffer(thread, session, tick)) {
    write_call(thread, tick, function, entry, argument);
  } else {
    drop(thread);
  }
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  thread->busy = false;
}

void profd_xray_on_call(int32_t function, enum xray_entry entry) { record(function, entry, NULL); }

void profd_xray_on_call_with_argument(int32_t function, enum xray_entry entry, uint64_t argument) {
  record(function, entry, &argument);
}
