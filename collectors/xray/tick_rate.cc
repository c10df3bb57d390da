#include "collectors/xray/tick_rate.h"

#include <sched.h>
#include <time.h>

#include <x86intrin.h>

#include "collectors/host/clock.h"

namespace profd::xray {
namespace {

constexpr std::uint64_t kLeastNs = 20'000'000;
constexpr int kReadings = 16;

std::uint64_t monotonic_ns() { return static_cast<std::uint64_t>(now_ns(CLOCK_MONOTONIC)); }

}  // namespace

// Returns the one of several readings that took the least time.
TickRate::Moment TickRate::now() {
  Moment best;
  std::uint64_t shortest = ~std::uint64_t{0};
  for (int i = 0; i < kReadings; ++i) {
    const std::uint64_t before = __rdtsc();
    const std::uint64_t ns = monotonic_ns();
    const std::uint64_t after = __rdtsc();
    if (after - before >= shortest) continue;
    shortest = after - before;
    best = {.ticks = before + shortest / 2, .ns = ns};
  }
  return best;
}

TickRate::TickRate() : start_(now()) {}

double TickRate::ns_per_tick(profd_xray_clock clock) const {
  if (clock == PROFD_XRAY_CLOCK_MONOTONIC) return 1;
  while (monotonic_ns() - start_.ns < kLeastNs) ::sched_yield();
  const Moment end = now();
  return static_cast<double>(end.ns - start_.ns) / static_cast<double>(end.ticks - start_.ticks);
}

}  // namespace profd::xray
