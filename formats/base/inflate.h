// Decompresses sections of ELF files up to a limit; the size that a section states is not used.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "formats/base/result.h"

namespace profd {

// kTooLarge: the result is larger than `max_bytes`. kMalformed: `packed` is no complete stream.
[[nodiscard]] Result<std::string> inflate_zlib(std::string_view packed, std::size_t max_bytes);
[[nodiscard]] Result<std::string> inflate_zstd(std::string_view packed, std::size_t max_bytes);

}  // namespace profd
