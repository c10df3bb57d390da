// busy_calls: 0.2 seconds of CPU time each in a function that the loader chooses (IFUNC), below the
// cold part of a function, in the vDSO, in the kernel and in a library.
//
// busy_calls slots: a second in calls through a slot of the PLT.

#define _GNU_SOURCE
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

// Of the library, whose code is busy_library.c.
unsigned tiny(unsigned value);
unsigned hidden_work(unsigned rounds);

unsigned volatile sink;

static int has_time(double seconds) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9 < seconds;
}

__attribute__((noinline)) static unsigned chosen_work(unsigned rounds) {
  unsigned value = rounds;
  for (unsigned i = 0; i < rounds; ++i) sink = value = value * 2654435761u ^ i;
  return value;
}
static unsigned (*choose_work(void))(unsigned) { return chosen_work; }
unsigned indirect_work(unsigned rounds) __attribute__((ifunc("choose_work")));

__attribute__((cold, noinline)) static unsigned cold_work(unsigned rounds) {
  unsigned value = rounds;
  for (unsigned i = 0; i < rounds; ++i) sink = value = value * 2654435761u ^ i;
  return value;
}

// The call is in seldom.cold.
__attribute__((noinline)) unsigned seldom(unsigned rounds) {
  if (rounds > 10) return cold_work(rounds) + 1;
  return sink;
}

// An interrupt comes where an instruction that took long has ended. So the call takes long, as the
// address of the slot is not in the cache, and the interrupt is in the slot.
__attribute__((noinline)) static void call_slots(void) {
  const void* slot;
  __asm__("lea tiny@PLT(%%rip), %0" : "=r"(slot));
  for (unsigned i = 0; i < 10000; ++i) {
    unsigned result;
    unsigned value = i;
    __asm__ volatile(
        "clflush (%2)\n\tmfence\n\t"
        "sub $128, %%rsp\n\t"  // the red zone
        "call *(%2)\n\t"
        "add $128, %%rsp"
        : "=&a"(result), "+D"(value)
        : "r"(&slot)
        : "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "cc", "memory");
    sink = result;
  }
}

__attribute__((noinline)) static void read_clock(void) {
  struct timespec now;
  for (unsigned i = 0; i < 10000; ++i) clock_gettime(CLOCK_MONOTONIC, &now);
}

__attribute__((noinline)) static void read_zeros(int file) {
  static char zeros[1 << 16];
  for (unsigned i = 0; i < 100; ++i) sink = (unsigned)read(file, zeros, sizeof zeros);
}

int main(int count, char** arguments) {
  (void)arguments;
  const int file = open("/dev/zero", O_RDONLY);
  while (count > 1 && has_time(1)) call_slots();
  while (has_time(0.2)) sink = indirect_work(100000);
  while (has_time(0.4)) sink = seldom(100000);
  while (has_time(0.6)) read_clock();
  while (has_time(0.8)) read_zeros(file);
  while (has_time(1)) sink = hidden_work(100000);
}
