// What profd takes: itself, and its children.

#pragma once

#include <cstdint>

namespace profd {

struct ProcessUsage {
  double cpu_seconds = 0;  // user and system, all threads
  std::uint64_t rss_bytes = 0;
};

[[nodiscard]] ProcessUsage own_usage();

struct ChildrenUsage {
  std::uint64_t processes = 0;  // that live
  double cpu_seconds = 0;       // of those that live and of those that were waited for
  std::uint64_t rss_bytes = 0;
};

// Profd's children are its parsers. One that goes meanwhile is left out.
[[nodiscard]] ChildrenUsage children_usage();

}  // namespace profd
