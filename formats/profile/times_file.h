// times.bin of a directory: when the samples of its profiles were taken.
//
//     file = start (8 bytes, little-endian: nanoseconds since the epoch, of tick 0), SampleTimes
//
// The samples of all profiles are counted in the order of session.json.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "formats/base/result.h"
#include "formats/profile/sample_times.h"

namespace profd {

struct TimesFile {
  std::int64_t start_ns = 0;  // not negative
  SampleTimes times{};
};

[[nodiscard]] std::string encode_times_file(const TimesFile& file);

// kMalformed, as decode_sample_times().
[[nodiscard]] Result<TimesFile> decode_times_file(std::string_view bytes);

}  // namespace profd
