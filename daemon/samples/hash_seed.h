// The seed of the daemon's hashes (formats/base/seeded_hash.h).

#pragma once

#include <cstdint>

#include "formats/base/seeded_hash.h"

namespace profd {

// One seed for the whole daemon, since its hashes are compared.
[[nodiscard]] inline std::uint64_t daemon_hash_seed() {
  static const std::uint64_t seed = random_seed();
  return seed;
}

}  // namespace profd
