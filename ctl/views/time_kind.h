// What the times of samples are of: CPU time, or the blocks of off-cpu, runnable and wall. Times of
// different kinds are never added up.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace profd {

enum class TimeKind : std::uint8_t {
  kCpu,       // and of samples that have no time
  kOffCpu,    // threads were blocked
  kRunnable,  // threads waited for a CPU
  kWall,      // both, and CPU time
};

struct TimeKindNames {
  std::string_view event;  // "off-cpu"
  std::string_view type;   // of the values in profile.proto: "off_cpu"
  const char* member;      // of the times in JSON: "off_cpu_ns"
  const char* count_type;  // of the counts in profile.proto: "blocks"
  const char* noun;        // of one of them: "block"
  const char* behind;      // a time: "off the CPU"
};

[[nodiscard]] const TimeKindNames& kind_names(TimeKind kind);

// Whether samples have a time of their own, which is no part of any CPU.
[[nodiscard]] constexpr bool is_of_blocks(TimeKind kind) { return kind != TimeKind::kCpu; }

// None: values of this type are no times that are known.
[[nodiscard]] std::optional<TimeKind> time_kind_of_type(std::string_view type);

// kCpu for every event whose samples are no blocks.
[[nodiscard]] TimeKind time_kind_of_event(std::string_view event);

}  // namespace profd
