// Reads the names of the last windows into the cache at the start of the daemon, so that the code
// that was hot before the restart is not looked up again.
//
// A window says which file (file_identity.h: build id, segments, owner) each of its mappings with a
// build id is, so a user's file never names the code of another's. Addresses without a name are
// left out: a debug file may be there now. On the worker of windows.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/history/window_file.h"
#include "daemon/names/name_cache.h"

namespace profd {

// A file_identity() as a window's record has it: the first 16 digits of the build id and what is
// behind it, since the mapping has the build id.
[[nodiscard]] std::string named_file_text(const std::string& identity);

// Those of `identities`, which are sorted, whose build id a mapping has: a file that only stacks
// over a share had is not in the profile. Where more than two build ids begin alike, two of them:
// names are not read back then.
[[nodiscard]] std::vector<std::string> named_files_of(const PprofProfile& profile,
                                                      const std::vector<std::string>& identities);

inline constexpr std::size_t kWindowsReadBack = 2;
// A window of a busy host has 150 KB. Larger ones are not read back.
inline constexpr std::uint64_t kMaxReadBackBytes = std::uint64_t{8} << 20;

// Of the newest windows in the directory. Returns the number of addresses. A window that cannot be
// read is left out.
std::uint64_t read_names_back(const std::string& windows_dir, NameCache& cache);

// Of one window.
std::uint64_t read_names_back(const WindowFile& window, NameCache& cache);

}  // namespace profd
