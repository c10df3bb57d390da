// How many cycles a busy CPU makes in a second.

#pragma once

#include <cstdint>

#include "formats/base/result.h"

namespace profd {

// Measured on the calling thread for some milliseconds. Error when cycles can't be counted.
[[nodiscard]] Result<std::uint64_t> measure_cycles_per_second();

}  // namespace profd
