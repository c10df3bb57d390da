// The seed of the daemon's hashes (formats/base/seeded_hash.h).

#pragma once

#include <sys/random.h>

#include <chrono>
#include <cstdint>

#include "formats/base/seeded_hash.h"

namespace profd {

// From the kernel's random source, once for the whole daemon; from the clock where that fails.
[[nodiscard]] inline std::uint64_t daemon_hash_seed() {
  static const std::uint64_t seed = [] {
    std::uint64_t random = 0;
    if (::getrandom(&random, sizeof random, 0) == sizeof random) return random;
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }();
  return seed;
}

}  // namespace profd
