// The reasons for which continuous mode can't keep or remove a window. Each has a name and a
// counter in `profctl status`, `profctl doctor` and /metrics.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace profd {

enum class WindowFailure : std::uint8_t {
  kNoSpace,     // the file system, or a quota of it, was full
  kIo,          // the window could not be written for another reason
  kWriterBusy,  // too many windows waited to be written
  kNotBegun,    // users' sessions had all slots, or sampling could not be started
  kNotRemoved,  // the file of an old window or hour could not be removed
  kHour,        // the file of an hour could not be made
  kCount,
};

inline constexpr std::size_t kWindowFailureCount = static_cast<std::size_t>(WindowFailure::kCount);

[[nodiscard]] constexpr std::string_view name_of(WindowFailure failure) {
  constexpr std::array<std::string_view, kWindowFailureCount> kNames{
      "no_space", "io", "writer_busy", "not_begun", "not_removed", "hour"};
  return kNames.at(static_cast<std::size_t>(failure));
}

}  // namespace profd
