// What profd itself takes.

#pragma once

#include <cstdint>

namespace profd {

struct ProcessUsage {
  double cpu_seconds = 0;  // user and system, all threads
  std::uint64_t rss_bytes = 0;
};

[[nodiscard]] ProcessUsage own_usage();

}  // namespace profd
