// The number of cycles that a busy CPU makes in a second.

#pragma once

#include <cstdint>

#include "formats/base/result.h"

namespace profd {

// Measured on the calling thread, which takes some milliseconds. kUnsupported where the host has no
// counter for them.
[[nodiscard]] Result<std::uint64_t> measure_cycles_per_second();

}  // namespace profd
