// Compressed sections of ELF files, inflated up to a cap, whatever they say of their size.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "formats/base/result.h"

namespace profd {

// kTooLarge for more than `max_bytes`, kMalformed for bytes that are damaged or cut.
[[nodiscard]] Result<std::string> inflate_zlib(std::string_view packed, std::size_t max_bytes);
[[nodiscard]] Result<std::string> inflate_zstd(std::string_view packed, std::size_t max_bytes);

}  // namespace profd
