// Whole files, by descriptor.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

// All of `bytes`; `what` names the file in an error.
Result<void> write_all(int fd, std::string_view bytes, const std::string& what);

// From the start to the end. For files of the daemon's own and of the kernel (their size may be 0).
[[nodiscard]] Result<std::string> read_all(int fd, const std::string& what);
[[nodiscard]] Result<std::string> read_whole_file(const std::string& path);

// For reading: a file below `directory`, never out of it, never through a link, and never waiting
// for a writer. Not valid() with errno.
[[nodiscard]] UniqueFd open_beneath(int directory, const std::string& path);
// All of it. kMalformed for what is no file, kTooLarge beyond `max_bytes`.
[[nodiscard]] Result<std::string> read_beneath(int directory, const std::string& path,
                                               std::uint64_t max_bytes);

}  // namespace profd
