// The events that a session can sample, by their names in perf (perf-list(1)), for the daemon and
// profctl.

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace profd {

struct KnownEvent {
  std::string_view name;
  std::uint32_t type = 0;    // PERF_TYPE_*
  std::uint64_t config = 0;  // PERF_COUNT_*
  bool is_time = false;      // samples stand for CPU time
  std::string_view help{};   // one line; of an alias, what it is one of
};

// Every event of perf. The first one is that of a session that names none.
[[nodiscard]] std::span<const KnownEvent> known_events();

// "off-cpu", "runnable" and "wall", whose samples are times that threads were off their CPU. Their
// type and config are those of the CPU clock, which only "wall" uses.
[[nodiscard]] std::span<const KnownEvent> block_events();

}  // namespace profd
