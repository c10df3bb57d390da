// Reads and writes whole files: files of /proc and /sys, which state a size of 0, and files that
// profd or its caller owns.

#pragma once

#include <fcntl.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

// Reads from the file position to the end, or `max_bytes`. `what` names the file in an error.
[[nodiscard]] Result<std::string> read_all(int fd, const std::string& what,
                                           std::size_t max_bytes = std::string::npos);

// A relative path starts at the directory that `directory` is open on.
[[nodiscard]] Result<std::string> read_whole_file(const std::string& path, int directory = AT_FDCWD,
                                                  std::size_t max_bytes = std::string::npos);

// Opens a file by openat2(2), whose `resolve` limits where the path may lead. Not valid() with
// errno.
[[nodiscard]] UniqueFd open_resolved(int directory, const std::string& path, std::uint64_t flags,
                                     std::uint64_t resolve);

// Writes all of `bytes` at the file position. False with errno.
[[nodiscard]] bool write_all(int fd, std::string_view bytes);

}  // namespace profd
