// When the samples of a profile were taken, in parts of a second: field 1001 of a profile.proto,
// and the file times.bin of a directory.
//
//     SampleTimes = until { sample tick count }
//
// All numbers are varints. A tick is kTickMs since the start of the session. The entries are sorted
// by sample and tick: `sample` is the difference to the sample of the entry before, `tick` the
// difference to the tick of the entry before if that has the same sample, and `count` how many were
// taken then. A sample that has no times, or fewer than its value, was also taken from `until` on.
//
// A value; no thread affinity.

#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/base/result.h"

namespace profd {

inline constexpr std::uint32_t kTickMs = 20;
inline constexpr std::uint32_t kTicksOfSecond = 1000 / kTickMs;
// 5.5 hours. All ticks are below.
inline constexpr std::uint32_t kMaxTicks = 20'000 * kTicksOfSecond;
inline constexpr std::size_t kMaxSampleTimes = std::size_t{8} << 20;
inline constexpr const char* kTimesFile = "times.bin";

struct SampleTime {
  std::uint32_t sample = 0;  // by the order in the file; of a directory, in that of its profiles
  std::uint32_t tick = 0;
  std::uint32_t count = 1;

  friend auto operator<=>(const SampleTime&, const SampleTime&) = default;
};

struct SampleTimes {
  std::uint32_t until = kMaxTicks;  // the times of samples are complete up to this tick
  std::vector<SampleTime> entries{};

  friend bool operator==(const SampleTimes&, const SampleTimes&) = default;
};

// Sorts the entries, and adds up those of one sample and tick. Those from `until` on, and those
// beyond kMaxSampleTimes, are left out; `until` says so.
void normalize(SampleTimes& times);

// `times` is normalized.
[[nodiscard]] std::string encode_sample_times(const SampleTimes& times);

// kMalformed: the bytes are cut, a number is out of its range, or there are too many entries.
// Whether a sample exists, and was taken so often, is for the caller to check.
[[nodiscard]] Result<SampleTimes> decode_sample_times(std::string_view bytes);

}  // namespace profd
