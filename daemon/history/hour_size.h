// Limits the size of an hour file. On a host that compiles, nearly every stack is another one, so
// that the hours of hours_max_age would not fit into the history.
//
// An hour that is larger than its limit loses detail step by step: first the mangled names, then
// the inner frames of rare stacks, whose place the frame `[frames left out]` has. The samples of
// each process, the values of each leaf and the cumulative values of the outermost frames are
// exact; frequent stacks stay whole.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "formats/profile/pprof_profile.h"

namespace profd {

// The limit of an hour file: the hours that are kept fit into half of the history.
[[nodiscard]] std::uint64_t max_bytes_of_hour(std::uint64_t max_bytes,
                                              std::chrono::seconds hours_max_age);

// Encodes a profile into the bytes of a file; `part`: of the profile's size, estimated, of what was
// given to encode_within().
using EncodeHour = std::function<std::string(PprofProfile& profile, double part)>;

// Returns a file of at most `max_bytes`, or the smallest one that there is. Encodes at most five
// times. Changes `profile` into what is in the file.
[[nodiscard]] std::string encode_within(std::uint64_t max_bytes, PprofProfile& profile,
                                        const EncodeHour& encode);

}  // namespace profd
