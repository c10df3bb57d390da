// How long a call of a function takes that does nothing: xray_live_app CALLS [forever]
//
// Says "ready", then for each line of its standard input does CALLS calls (an entry and an exit
// each) and says how many nanoseconds one took. Compiled with and without -fxray-instrument.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#ifdef PROFD_XRAY
#include "profd_xray.h"
#endif

__attribute__((noinline)) void callee(std::uint64_t i) { asm volatile("" : : "r"(i)); }

[[clang::xray_never_instrument]] int main(int argc, char** argv) {
  const std::uint64_t calls = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1'000'000;
#ifdef PROFD_XRAY
  profd_xray_start();
#endif
  std::puts("ready");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
    const auto begin = std::chrono::steady_clock::now();
    for (std::uint64_t i = 0; i < calls; ++i) callee(i);
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    std::printf("%.3f\n", took.count() / static_cast<double>(calls));
    std::fflush(stdout);
  }
  return 0;
}
