// An instrumented program that knows how often it calls what: calls [--threads N] [--rounds N]
// [--odd] [--fork]
// [--forever]
//
// A round is one call of outer(), two of middle() and eight of leaf(). It says "ready PID" first,
// waits for a line on its standard input, does its rounds in each thread, says "done ROUNDS" and
// ends at the end of its input. With
// --forever the rounds go on until then. With --odd a round has exceptions and jumps, with --fork a
// child does its rounds first.

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include "profd_xray.h"

namespace {

volatile std::uint64_t sink;
thread_local std::jmp_buf jump;
std::atomic<bool> over{false};

}  // namespace

#define NOINLINE __attribute__((noinline))

NOINLINE void leaf() { sink = sink + 1; }

NOINLINE void middle() {
  for (int i = 0; i < 4; ++i) leaf();
  sink = sink + 2;
}

NOINLINE void outer() {
  for (int i = 0; i < 2; ++i) middle();
  sink = sink + 3;
}

NOINLINE void thrower() {
  leaf();
  throw std::runtime_error("as expected");
}

NOINLINE void catcher() {
  try {
    thrower();
  } catch (const std::runtime_error&) {
    leaf();
  }
}

NOINLINE void jumper() {
  leaf();
  std::longjmp(jump, 1);
}

NOINLINE void landing() {
  if (setjmp(jump) == 0) jumper();
  leaf();
}

[[clang::xray_never_instrument]] static std::uint64_t do_rounds(std::uint64_t rounds, bool is_odd,
                                                                bool forever) {
  std::uint64_t done = 0;
  while (!over && (forever || done < rounds)) {
    outer();
    if (is_odd) {
      catcher();
      landing();
    }
    ++done;
  }
  return done;
}

[[clang::xray_never_instrument]] static void do_rounds_in_child(std::uint64_t rounds) {
  const pid_t child = fork();
  if (child == 0) {
    do_rounds(rounds, false, false);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::printf("child %s\n", status == 0 ? "done" : "failed");
}

[[clang::xray_never_instrument]] int main(int argc, char** argv) {
  int threads = 1;
  std::uint64_t rounds = 1000;
  bool is_odd = false;
  bool forever = false;
  bool forks = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--threads") == 0) threads = std::atoi(argv[++i]);
    if (std::strcmp(argv[i], "--rounds") == 0) rounds = std::strtoull(argv[++i], nullptr, 10);
    if (std::strcmp(argv[i], "--odd") == 0) is_odd = true;
    if (std::strcmp(argv[i], "--forever") == 0) forever = true;
    if (std::strcmp(argv[i], "--fork") == 0) forks = true;
  }
  profd_xray_start();
  std::printf("ready\n");
  std::fflush(stdout);
  if (std::getchar() == EOF) return 0;
  if (forks) do_rounds_in_child(rounds);
  std::atomic<std::uint64_t> done{0};
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i) {
    all.emplace_back([&] { done += do_rounds(rounds, is_odd, forever); });
  }
  if (forever) {
    while (std::getchar() != EOF) continue;
    over = true;
  }
  for (std::thread& thread : all) thread.join();
  std::printf("done %llu\n", static_cast<unsigned long long>(done.load()));
  std::fflush(stdout);
  while (std::getchar() != EOF) continue;
  return 0;
}
