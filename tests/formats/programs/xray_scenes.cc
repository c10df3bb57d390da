// An instrumented program that leaves a trace of one scene and prints how often it called what:
// xray_scenes SCENE THREADS ROUNDS FDR_OPTIONS. Its log's place is by XRAY_OPTIONS.

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <thread>
#include <vector>

#include "xray/xray_interface.h"
#include "xray/xray_log_interface.h"

#define SEEN [[clang::xray_always_instrument]] __attribute__((noinline))
#define SEEN_WITH_ARGUMENT \
  [[clang::xray_always_instrument, clang::xray_log_args(1)]] __attribute__((noinline))
#define UNSEEN __attribute__((xray_never_instrument))
#define NO_TAIL_CALL asm volatile("")

// What the runtime fills in when it is patched; Clang 14 has no builtin that survives optimization.
namespace __xray {
struct Patched {
  volatile unsigned long function;
};
extern Patched XRayPatchedTypedEvent;
}  // namespace __xray

namespace {

struct Counter {
  const char* name;
  std::atomic<long> calls{0};
};
Counter counters[] = {{"leaf"},    {"node"},    {"outer"},   {"told"},    {"jumping"},
                      {"landing"}, {"deeper"},  {"thrower"}, {"catcher"}, {"jumper"},
                      {"setter"},  {"marking"}, {"lasting"}};
enum Name {
  kLeaf,
  kNode,
  kOuter,
  kTold,
  kJumping,
  kLanding,
  kDeeper,
  kThrower,
  kCatcher,
  kJumper,
  kSetter,
  kMarking,
  kLasting
};

thread_local std::jmp_buf back;

UNSEEN void count(Name name) { ++counters[name].calls; }

}  // namespace

SEEN void leaf() { count(kLeaf); }

SEEN void node() {
  count(kNode);
  leaf();
  NO_TAIL_CALL;
}

SEEN void outer() {
  count(kOuter);
  for (int i = 0; i < 4; ++i) node();
  NO_TAIL_CALL;
}

SEEN_WITH_ARGUMENT void told(long value) {
  count(kTold);
  if (value > 0) leaf();
  NO_TAIL_CALL;
}

SEEN void landing() {
  count(kLanding);
  leaf();
  NO_TAIL_CALL;
}

SEEN void jumping() {
  count(kJumping);
  [[clang::musttail]] return landing();
}

SEEN void deeper(int levels) {
  count(kDeeper);
  if (levels > 0) deeper(levels - 1);
  NO_TAIL_CALL;
}

SEEN void thrower(int levels) {
  count(kThrower);
  if (levels == 0) throw 42;
  thrower(levels - 1);
  NO_TAIL_CALL;
}

SEEN void catcher() {
  count(kCatcher);
  try {
    thrower(3);
  } catch (int) {
    leaf();
  }
  NO_TAIL_CALL;
}

SEEN void jumper(int levels) {
  count(kJumper);
  if (levels == 0) std::longjmp(back, 1);
  jumper(levels - 1);
  NO_TAIL_CALL;
}

SEEN void setter() {
  count(kSetter);
  if (setjmp(back) == 0) jumper(3);
  leaf();
  NO_TAIL_CALL;
}

// Takes 20 us at least.
SEEN void lasting() {
  count(kLasting);
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(20);
  leaf();
  while (std::chrono::steady_clock::now() < end) {
  }
  NO_TAIL_CALL;
}

UNSEEN void typed_event(const char* text) {
  const auto event = reinterpret_cast<void (*)(std::size_t, const void*, std::size_t)>(
      __xray::XRayPatchedTypedEvent.function);
  if (event != nullptr) event(7, text, std::strlen(text));
}

SEEN void marking() {
  count(kMarking);
  typed_event("typed");
  leaf();
  NO_TAIL_CALL;
}

namespace {

UNSEEN void pin(unsigned cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu % std::thread::hardware_concurrency(), &set);
  ::sched_setaffinity(0, sizeof set, &set);
}

UNSEEN void play(const char* scene, int round) {
  const auto is = [scene](const char* name) UNSEEN { return std::strcmp(scene, name) == 0; };
  if (is("calls") || is("fork") || is("durations")) outer();
  if (is("durations") && round % 10 == 0) lasting();
  if (is("arguments")) told(round % 2);
  if (is("tail")) jumping();
  if (is("recursion")) deeper(round % 50);
  if (is("exceptions")) catcher();
  if (is("longjmp")) setter();
  if (is("typed")) marking();
  if (is("cpus")) {
    pin(static_cast<unsigned>(round));
    node();
  }
}

UNSEEN void print_counts() {
  for (const Counter& counter : counters) {
    if (counter.calls != 0) std::printf("%s %ld\n", counter.name, counter.calls.load());
  }
  std::fflush(stdout);
}

UNSEEN int end() {
  const bool done =
      __xray_log_finalize() == XRAY_LOG_FINALIZED && __xray_log_flushLog() == XRAY_LOG_FLUSHED;
  return done ? 0 : 1;
}

}  // namespace

UNSEEN int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const int threads = std::atoi(argv[2]);
  const int rounds = std::atoi(argv[3]);
  if (__xray_log_select_mode("xray-fdr") != XRAY_REGISTRATION_OK ||
      __xray_log_init_mode("xray-fdr", argv[4]) != XRAY_LOG_INITIALIZED) {
    return 3;
  }
  __xray_patch();
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) {
    running.emplace_back([&]() UNSEEN {
      for (int round = 0; round < rounds; ++round) play(argv[1], round);
    });
  }
  for (std::thread& thread : running) thread.join();
  if (std::strcmp(argv[1], "fork") == 0) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (int round = 0; round < rounds; ++round) play(argv[1], round);
      ::_exit(end());
    }
    int status = 0;
    if (::waitpid(child, &status, 0) != child || status != 0) return 4;
  }
  print_counts();
  return end();
}
