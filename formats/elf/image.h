// Small ELF files that stand in for code which pprof can't open at its path: the kernel, code made
// at run time, and files that are deleted, replaced or out of reach. They hold the hit functions'
// symbols and nothing that was not hit.
//
// Two shapes, each tested with both pprofs, addr2line, nm and llvm-symbolizer:
//
// - An absolute image (of the kernel; jit_image.h has JIT code's) is an ET_EXEC without program
//   headers, with .text at its run-time address, so that addresses are looked up as they are.
//
// - A file image has the original's type, PT_LOADs and build id, so that the original's mapping
//   lines fit it. Perl's pprof computes addresses by the one .text section: where executable
//   segments lie differently in file and memory, it names those of the lowest hit function's only.
//
// Code has no bytes in either (NOBITS): names don't need them. An address between functions is
// given to a symbol "[NAME]" of the file that fills the gap, not to the function before. The last
// symbol is "_fini", right behind the code: Perl's pprof gives the last symbol no size, and uses
// this one as a separator in what it asks of addr2line.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/elf/elf_file.h"

namespace profd {

// Whether a symbol is one that fills a gap.
[[nodiscard]] bool is_gap_name(std::string_view name);

struct AbsoluteImage {
  std::vector<ElfSymbol> functions;  // sorted, not overlapping
  std::string build_id;              // raw bytes; empty: none
  // Where .text lies, all functions in it. 0: as the functions need it, so that an image with more
  // functions may need another mapping line.
  std::uint64_t text_start = 0;
  std::uint64_t text_end = 0;
};

// Where a profile's mapping line must lie: from one page before the first function (pprof lists
// from 500 bytes before) to the end of the last, at .text's file offset.
struct ImagePlacement {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t file_offset = 0;
};

[[nodiscard]] ImagePlacement placement_of(const AbsoluteImage& image);
[[nodiscard]] std::string encode_absolute_image(const AbsoluteImage& image);

struct FileImage {
  ElfSummary original;
  std::string name;  // of the file, for the gaps, that before the first included; empty: unknown
  std::vector<ElfSymbol> functions;  // virtual addresses of the original, sorted
};

[[nodiscard]] std::string encode_file_image(const FileImage& image);

}  // namespace profd
