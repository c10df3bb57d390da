// Whole files, by descriptor.

#pragma once

#include <string>
#include <string_view>

#include "formats/result.h"

namespace profd {

// All of `bytes`; `what` names the file in an error.
Result<void> write_all(int fd, std::string_view bytes, const std::string& what);

// From the start to the end. For files of the daemon's own and of the kernel (their size may be 0).
[[nodiscard]] Result<std::string> read_all(int fd, const std::string& what);
[[nodiscard]] Result<std::string> read_whole_file(const std::string& path);

}  // namespace profd
