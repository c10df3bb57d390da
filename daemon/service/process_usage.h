// CPU time and memory of profd and of its children.

#pragma once

#include <cstdint>

#include "formats/api/status_info.h"

namespace profd {

struct ProcessUsage {
  double cpu_seconds = 0;  // user and system, all threads
  std::uint64_t rss_bytes = 0;
};

[[nodiscard]] ProcessUsage own_usage();

// All children are parsers. One that ends meanwhile is left out.
[[nodiscard]] StatusInfo::Parsers children_usage();

}  // namespace profd
