// .gnu_debuglink, which names the debug file of a stripped file, and whether a debug file is the
// one of a file. Both files may be hostile.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "formats/base/result.h"
#include "formats/elf/code_file.h"

namespace profd {

inline constexpr std::size_t kMaxDebugLinkBytes = 255;  // NAME_MAX

struct DebugLink {
  std::string name;       // one component of a path, not "." or ".."
  std::uint32_t crc = 0;  // CRC-32 of the debug file
};

// None: there is no such section, it is malformed, or its name is longer than kMaxDebugLinkBytes or
// has a '/'.
[[nodiscard]] std::optional<DebugLink> read_debug_link(const CodeFile& file);

enum class DebugFileMatch : std::uint8_t { kMatches, kOtherBuildId, kOtherChecksum, kTooLarge };

// The largest debug file whose checksum is computed: 0.1 to 0.5 s.
inline constexpr std::uint64_t kMaxChecksumBytes = std::uint64_t{128} << 20;

// Where both files have a build id, it decides, else the checksum in the link of the file does. A
// file without either has no debug file: kOtherChecksum. kTooLarge: above kMaxChecksumBytes. An
// error where one of the two is not an ELF file of this machine.
[[nodiscard]] Result<DebugFileMatch> match_debug_file(int fd, int debug_fd);

}  // namespace profd
