// Separate debug files, where distributions put them: by build id, then by .gnu_debuglink.

#pragma once

#include <string>

#include "formats/base/unique_fd.h"
#include "formats/unwind/cfi_tables.h"

namespace profd {

inline constexpr const char* kDebugRoot = "/usr/lib/debug";

// The debug file of a file that is known as `path`. Only root's own files below `root` are taken;
// one that is found by its link must have the checksum that the link gives. Invalid where there is
// none.
[[nodiscard]] UniqueFd open_debug_file(const UnwindSource& source, const std::string& path,
                                       const std::string& root = kDebugRoot);

[[nodiscard]] std::string to_hex(std::string_view bytes);

}  // namespace profd
