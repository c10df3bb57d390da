// Finds separate debug files where distributions install them: by build id, then by .gnu_debuglink
// or .gnu_debugaltlink.

#pragma once

#include <string>
#include <string_view>

#include "formats/base/unique_fd.h"
#include "formats/unwind/cfi_tables.h"

namespace profd {

inline constexpr const char* kDebugRoot = "/usr/lib/debug";

// Opens the debug file of the file at `path`. Only files below `root` that root owns and everybody
// may read are opened. A file found by its link must have the checksum in the link. Invalid where
// there is none.
[[nodiscard]] UniqueFd open_debug_file(const UnwindSource& source, const std::string& path,
                                       const std::string& root = kDebugRoot);

// Opens the file that dwz made for several debug files: by its build id (raw bytes), then by the
// path in .gnu_debugaltlink, of which the part from ".dwz/" on counts. Only files below `root` that
// root owns and everybody may read and reach are opened, since the author of the link chooses what
// is read in it; the reader compares the build id. Invalid where there is none.
[[nodiscard]] UniqueFd open_alt_file(const std::string& link, const std::string& build_id,
                                     const std::string& root = kDebugRoot);

// The place of the debug file of a build id (raw bytes) below a directory of debug files:
// .build-id/xx/yyyy.debug. Empty for an id of fewer than 2 or more than 64 bytes.
[[nodiscard]] std::string debug_path_of(std::string_view build_id);

[[nodiscard]] std::string to_hex(std::string_view bytes);

}  // namespace profd
