// Files of the daemon: writes, reads below a directory, and directories.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

// Writes all of `bytes`; `what` names the file in an error.
Result<void> write_all(int fd, std::string_view bytes, const std::string& what);

// Makes a directory and those above it, unless it exists. A new one gets `mode`, whatever the umask
// is.
Result<void> make_directory(const std::filesystem::path& path, mode_t mode);

// Makes a directory and those above it, unless it exists, gives it mode 0700, and opens it.
[[nodiscard]] Result<UniqueFd> open_own_directory(const std::string& path);

// Opens a directory that is not a link. Not valid() with errno.
[[nodiscard]] UniqueFd open_directory(int parent, const std::string& name);

// The names in a directory, sorted.
[[nodiscard]] Result<std::vector<std::string>> list_directory(const std::string& path);

// Opens a file below `directory` for reading: never outside of it, never through a link, and
// without waiting for a writer. Not valid() with errno.
[[nodiscard]] UniqueFd open_beneath(int directory, const std::string& path);

// Reads such a file. kMalformed: it is not a regular file; kTooLarge: over `max_bytes`.
[[nodiscard]] Result<std::string> read_beneath(int directory, const std::string& path,
                                               std::uint64_t max_bytes);

}  // namespace profd
