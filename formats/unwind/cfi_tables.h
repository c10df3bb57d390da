// The unwind rows of an ELF file: from .eh_frame, from .debug_frame, and from what is known of code
// that has neither (PLT stubs, signal restorers, the entry point).
//
// The bytes are another user's: reads are bounded, counts are checked, work is capped. What can't
// be told in a rule is counted (CfiLoss) and becomes an unknown row, never a guess. `fd` is
// borrowed and read by pread only.

#pragma once

#include <cstdint>
#include <string>

#include "formats/base/result.h"
#include "formats/unwind/unwind_table.h"

namespace profd {

// What has to be known of a file before its rows are made.
struct UnwindSource {
  std::string build_id;    // raw bytes; empty: none
  std::string debug_link;  // .gnu_debuglink's file name; empty: none
  std::uint32_t debug_link_crc = 0;
  bool has_eh_frame = false;
  bool has_debug_frame = false;
  // Keyed digest of all that the rows are made from (segments, entry, CFI bytes): files of equal
  // build id and digest have equal rows. `key` is secret, so nobody can make two that collide.
  std::uint64_t digest[2] = {};
};
struct DigestKey {
  std::uint64_t words[2] = {};
};
[[nodiscard]] Result<UnwindSource> read_unwind_source(int fd, const DigestKey& key);

// An encoded table (formats/unwind/unwind_table.h). `debug_fd` is a separate debug file, or -1: its
// .debug_frame is used for addresses that the file's own CFI leaves out. Errors: not an ELF file of
// x86-64, or no executable segment. A file without any CFI has a table of what is known otherwise.
[[nodiscard]] Result<std::string> make_unwind_table(int fd, int debug_fd);

}  // namespace profd
