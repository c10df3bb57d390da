// MiniDebugInfo: an ELF file with .symtab alone, compressed by xz, in the section .gnu_debugdata
// of a stripped file. It has the local functions that .dynsym lacks. Source: gdb's manual,
// "Debugging information in a special section".

#pragma once

#include <cstdint>
#include <optional>

#include "formats/base/unique_fd.h"
#include "formats/symbols/read_limits.h"

namespace profd {

inline constexpr std::uint64_t kMaxMiniDebugInfoBytes = std::uint64_t{64} << 20;

// The decompressed file, in a memfd: its bytes then do not count for the limit of the parser's
// address space. None: the file has no such section, or the section is malformed, larger than
// kMaxMiniDebugInfoBytes or needs more than 16 MiB of memory, or the limits are spent (a byte of
// the result costs as much as one that is read).
[[nodiscard]] std::optional<UniqueFd> unpack_mini_debug_info(const LimitedFile& file);

}  // namespace profd
