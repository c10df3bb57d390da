// /proc/PID/maps (proc_pid_maps(5)): the mappings of a process.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/base/result.h"

namespace profd {

struct MapsLine {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::string permissions;  // "r-xp"
  std::uint64_t file_offset = 0;
  std::uint32_t device_major = 0;
  std::uint32_t device_minor = 0;
  std::uint64_t inode = 0;
  std::string path;  // without octal escapes and " (deleted)"; empty: anonymous memory
  bool deleted = false;

  friend bool operator==(const MapsLine&, const MapsLine&) = default;
};

// `line` has no line feed. kMalformed for a line of another form.
[[nodiscard]] Result<MapsLine> parse_maps_line(std::string_view line);

// The paths of the files that a process has mapped as code, in the order of their addresses, from
// the first 65,536 lines of /proc/PID/maps. Empty if the caller may not read that file.
[[nodiscard]] std::vector<std::string> code_paths_of(pid_t pid);

}  // namespace profd
