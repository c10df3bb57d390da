// The clocks and time stamps of the kernel in nanoseconds.

#pragma once

#include <sys/stat.h>
#include <time.h>

#include <cstdint>

namespace profd {

[[nodiscard]] constexpr std::int64_t nanoseconds_of(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}
[[nodiscard]] constexpr std::int64_t nanoseconds_of(const statx_timestamp& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// `clock` is one that every kernel has: CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME_ID, ...
[[nodiscard]] inline std::int64_t now_ns(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return nanoseconds_of(time);
}

}  // namespace profd
