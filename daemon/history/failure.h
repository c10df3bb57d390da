// Every way in which continuous mode fails to keep a window. Each has a name and a counter, shown
// in `profctl status`, `profctl doctor` and /metrics.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace profd {

enum class WindowFailure : std::uint8_t {
  kNoSpace,     // the file system was full
  kIo,          // it could not be written for another reason
  kWriterBusy,  // too many others waited to be written
  kNotBegun,    // users' sessions had all that there is to sample with, or it could not be sampled
  kNotRemoved,  // an old one, or a file of it, would not go
  kCount,
};

inline constexpr std::size_t kWindowFailureCount = static_cast<std::size_t>(WindowFailure::kCount);

[[nodiscard]] std::string_view name_of(WindowFailure failure);

}  // namespace profd
