// Decodes a gperftools CPU profile: 32 or 64 bit, either byte order. gperftools_format.h has the
// grammar.
//
// Unknown text lines are skipped; "build=" defines "$build", which may add 16 MiB to all paths
// together. Decoys (count 0) are dropped. The error of a malformed file has the byte offset of the
// malformed part.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "formats/base/result.h"
#include "formats/profile/profile.h"

namespace profd {

[[nodiscard]] Result<Profile> decode_gperftools(std::string_view file);

// The sum of the counts of a file that decode_gperftools() reads, without the profile.
[[nodiscard]] Result<std::uint64_t> count_gperftools_samples(std::string_view file);

// The offset of the text list, directly after the trailer: for a change of the list alone.
[[nodiscard]] Result<std::size_t> text_offset(std::string_view file);

}  // namespace profd
