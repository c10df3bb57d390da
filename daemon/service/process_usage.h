// CPU time and memory of profd and of its children.

#pragma once

#include <cstdint>

namespace profd {

struct ProcessUsage {
  double cpu_seconds = 0;  // user and system, all threads
  std::uint64_t rss_bytes = 0;
};

[[nodiscard]] ProcessUsage own_usage();

struct ChildrenUsage {
  std::uint64_t processes = 0;  // alive
  double cpu_seconds = 0;       // of living children and of those that were waited for
  std::uint64_t rss_bytes = 0;
};

// The children are parsers. One that ends meanwhile is left out.
[[nodiscard]] ChildrenUsage children_usage();

}  // namespace profd
