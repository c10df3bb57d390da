// Decodes a gperftools CPU profile: 32 or 64 bit, either byte order. gperftools_format.h has the
// grammar.
//
// Unknown text lines are skipped; "build=" defines "$build". Decoys (count 0) are dropped. Every
// malformed file is an error with the byte offset at which it stopped making sense.

#pragma once

#include <cstddef>
#include <string_view>

#include "formats/base/result.h"
#include "formats/profile/profile.h"

namespace profd {

[[nodiscard]] Result<Profile> decode_gperftools(std::string_view file);

// Where the text list begins: right after the trailer. For those that change the list and nothing
// else.
[[nodiscard]] Result<std::size_t> text_offset(std::string_view file);

}  // namespace profd
