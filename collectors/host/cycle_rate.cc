#include "collectors/host/cycle_rate.h"

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "collectors/host/clock.h"
#include "formats/base/unique_fd.h"

namespace profd {
namespace {

constexpr std::uint64_t kNsPerSecond = 1'000'000'000;
constexpr std::uint64_t kSpinNs = 1'000'000;
constexpr int kTries = 5;

std::uint64_t thread_cpu_ns() {
  return static_cast<std::uint64_t>(now_ns(CLOCK_THREAD_CPUTIME_ID));
}

std::uint64_t read_count(const UniqueFd& counter) {
  std::uint64_t count = 0;
  return ::read(counter.get(), &count, sizeof(count)) == sizeof(count) ? count : 0;
}

std::uint64_t cycles_per_second_once(const UniqueFd& counter) {
  const std::uint64_t cycles = read_count(counter);
  const std::uint64_t start = thread_cpu_ns();
  std::uint64_t now = start;
  while (now - start < kSpinNs) now = thread_cpu_ns();
  return (read_count(counter) - cycles) * kNsPerSecond / (now - start);
}

Error no_counter(int error) {
  if (error != ENOENT && error != ENODEV && error != EOPNOTSUPP) {
    return fail_errno("could not count cycles", error);
  }
  return fail(ErrorCode::kUnsupported, "this host has no hardware counter (PMU) for cycles",
              "use cpu-clock: it needs no hardware counter");
}

}  // namespace

Result<std::uint64_t> measure_cycles_per_second() {
  perf_event_attr attr{};
  attr.size = sizeof(attr);
  attr.type = PERF_TYPE_HARDWARE;
  attr.config = PERF_COUNT_HW_CPU_CYCLES;
  const UniqueFd counter(
      static_cast<int>(::syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC)));
  if (!counter.valid()) return no_counter(errno);
  // The highest rate of several: a clock that still ramps up and time that a hypervisor steals only
  // lower it.
  std::uint64_t best = 0;
  for (int i = 0; i < kTries; ++i) best = std::max(best, cycles_per_second_once(counter));
  if (best == 0) return fail(ErrorCode::kUnsupported, "the cycle counter does not count");
  return best;
}

}  // namespace profd
