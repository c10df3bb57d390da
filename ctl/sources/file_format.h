// What kind of profile a file is, by its content.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "formats/base/result.h"

namespace profd {

enum class FileFormat : std::uint8_t {
  kPprof,       // profile.proto, gzip or plain
  kGperftools,  // of one process, without names
  kFolded,      // "a;b;c 12"
};

// Larger files are refused before they are read.
inline constexpr std::uint64_t kMaxSourceBytes = std::uint64_t{256} << 20;

// `is_folded`: its name says so. kMalformed, with a hint, for an empty file, and for one of another
// kind. Messages are without a path: "it is empty".
[[nodiscard]] Result<FileFormat> format_of_file(std::string_view bytes, bool is_folded);

// Of a file without content, or of gzip data without.
[[nodiscard]] Error empty_file(bool is_packed);

[[nodiscard]] Error too_large_file();

// The error of an open, with what to do where permission is denied.
[[nodiscard]] Error error_of_open(const Error& error);

// The error of a reader, with the path and what to do.
[[nodiscard]] Error error_of_file(const std::string& path, const Error& error);

}  // namespace profd
