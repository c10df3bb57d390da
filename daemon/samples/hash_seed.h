// The seed of the daemon's hashes (formats/base/seeded_hash.h).

#pragma once

#include <cstdint>

#include "formats/base/seeded_hash.h"

namespace profd {

// From the kernel's random source; one for the whole daemon.
[[nodiscard]] std::uint64_t daemon_hash_seed();

}  // namespace profd
