// One line of /proc/PID/maps.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

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

}  // namespace profd
