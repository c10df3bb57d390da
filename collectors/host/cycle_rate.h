// The number of cycles that a busy CPU makes in a second.

#pragma once

#include <cstdint>

#include "formats/base/result.h"

namespace profd {

// Measured on the calling thread, which takes some milliseconds. An error where cycles can't be
// counted.
[[nodiscard]] Result<std::uint64_t> measure_cycles_per_second();

}  // namespace profd
