// Packs and unpacks whole gzip files (RFC 1952) with libdeflate.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "formats/base/result.h"

namespace profd {

// `level`: 1, the fastest, to 12. Equal bytes and levels give an equal file: it has no time.
[[nodiscard]] std::string pack_gzip(std::string_view bytes, int level);

[[nodiscard]] bool is_gzip(std::string_view file);

// Several members give their bytes one after the other, as gunzip and Go's reader do. kTooLarge:
// they are more than `max_bytes`. kMalformed: `file` is not gzip to its end, or a checksum is
// wrong.
[[nodiscard]] Result<std::string> unpack_gzip(std::string_view file, std::size_t max_bytes);

}  // namespace profd
