// Packs and unpacks whole gzip files (RFC 1952) with libdeflate.

#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "formats/base/result.h"

namespace profd {

// `level`: 1, the fastest, to 12. Equal bytes and levels give an equal file: it has no time.
[[nodiscard]] std::string pack_gzip(std::string_view bytes, int level);

// Adds a field of the header (RFC 1952, 2.3.1.1), which other readers skip, to a file that
// pack_gzip() made. `id` has two characters.
[[nodiscard]] std::string add_gzip_field(std::string file, std::string_view id,
                                         std::string_view data);

// The bytes that add_gzip_field() adds besides those of the field.
inline constexpr std::size_t kGzipFieldBytes = 6;

// The data of such a field. None: `head`, the first bytes of a file, does not hold it to its end.
[[nodiscard]] std::optional<std::string_view> find_gzip_field(std::string_view head,
                                                              std::string_view id);

// Where the fields of the header end. 0: `head` has none, or is too short for their size.
[[nodiscard]] std::size_t end_of_gzip_fields(std::string_view head);

[[nodiscard]] bool is_gzip(std::string_view file);

// The unpacked size of the last member, modulo 2^32, as its trailer states it: the maker of the
// file chose that. 0: the file is too short for a trailer.
[[nodiscard]] std::size_t stated_gzip_size(std::string_view file);

// Several members give their bytes one after the other, as gunzip and Go's reader do. kTooLarge:
// they are more than `max_bytes`. kMalformed: `file` is not gzip to its end, or a checksum is
// wrong.
[[nodiscard]] Result<std::string> unpack_gzip(std::string_view file, std::size_t max_bytes);

// Whether a file that unpack_gzip() found malformed is the start of a valid one, as a copy that was
// interrupted leaves it. Unpacks again, up to `max_bytes`.
[[nodiscard]] bool is_cut_gzip(std::string_view file, std::size_t max_bytes);

}  // namespace profd
