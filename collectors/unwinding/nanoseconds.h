// Lengths of time as whole nanoseconds, in which ticks and the kernel's times are counted.

#pragma once

#include <chrono>
#include <cstdint>

namespace profd {

// `time` is not negative.
constexpr std::uint64_t nanoseconds_of(std::chrono::nanoseconds time) {
  return static_cast<std::uint64_t>(time.count());
}

}  // namespace profd
