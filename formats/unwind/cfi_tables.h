// The unwind rows of an ELF file: from .eh_frame, from .debug_frame, and for code without either
// that is recognized by its bytes (PLT stubs, signal restorers, the entry point).
//
// The file may be hostile: reads are bounded, counts are checked, work is limited. Code whose state
// a rule can't express is counted (CfiLoss) and gets an unknown row. `fd` is borrowed and read by
// pread only.

#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "formats/base/result.h"
#include "formats/unwind/unwind_table.h"

namespace profd {

// Properties of a file that are needed before its rows are made.
struct UnwindSource {
  std::string build_id;    // raw bytes; empty: none
  std::string debug_link;  // .gnu_debuglink's file name; empty: none
  std::uint32_t debug_link_crc = 0;
  bool has_eh_frame = false;
  bool has_debug_frame = false;
  // Keyed digest of all inputs of the rows (segments, entry, CFI bytes): files of equal build id
  // and digest have equal rows. `key` is secret, so that nobody can construct a collision.
  std::array<std::uint64_t, 2> digest{};
};
struct DigestKey {
  std::uint64_t words[2] = {};
};
[[nodiscard]] Result<UnwindSource> read_unwind_source(int fd, const DigestKey& key);

// Returns an encoded table (unwind_table.h). `debug_fd` is a separate debug file, or -1: its
// .debug_frame is used for addresses that the file's own CFI does not describe. Errors: not an
// x86-64 ELF file, or no executable segment. A file without CFI has a table of the recognized code.
[[nodiscard]] Result<std::string> make_unwind_table(int fd, int debug_fd);

}  // namespace profd
