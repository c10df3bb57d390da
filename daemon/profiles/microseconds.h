// Whole microseconds of times that come one after the other. What is left of one counts in the next
// one, so the microseconds of all together are those of the sum of their times. Used on a worker.

#pragma once

#include <cstdint>

namespace profd {

class Microseconds {
 public:
  // What the next time adds to them.
  std::uint64_t add(std::uint64_t ns) {
    const std::uint64_t all = ns % kNs + rest_ns_;
    rest_ns_ = all % kNs;
    return ns / kNs + all / kNs;
  }

 private:
  static constexpr std::uint64_t kNs = 1000;

  std::uint64_t rest_ns_ = 0;
};

}  // namespace profd
