// A small Go program of one function, as the linkers of Go 1.16, 1.18 and 1.20 lay its table out:
// an ELF file without section headers, of one data segment.
//
// main.outer is at [0x400010, 0x400050). By offsets in it: lines 10, 20, 30 and 40 of /src/a.go
// from 0, 0x10, 0x20 and 0x30 on. From 0x10 on main.middle, inlined at offset 0x08; from 0x20 on
// main.inner, inlined at offset `inner_call` of main.middle. main.inner is `inner_bytes` long, and
// what follows it moves by that.

#pragma once

#include <cstdint>
#include <string>

#include "formats/symbols/go_file.h"

namespace profd::test {

struct GoTableMaker {
  go::Layout layout = go::Layout::kGo120;
  std::uint32_t inner_call = 0x18;
  std::uint64_t function_count = 1;
  std::uint32_t function_offset = 24;  // of struct _func, from the array of functions on
  bool has_module = true;
  std::uint32_t inner_bytes = 0x10;
  // Pairs at the start of the lines that are 10 bytes long and together change nothing. Even.
  std::uint32_t padded_pairs = 0;

  static constexpr std::uint64_t kEntry = 0x400010;

  [[nodiscard]] std::string make() const;
};

}  // namespace profd::test
