// Images: small ELF files with the symbols of sampled functions, for code that pprof cannot open at
// its path: the kernel, JIT code, and files that are deleted, replaced or out of reach.
//
// Two forms, each tested with both pprofs, addr2line, nm and llvm-symbolizer:
// - An absolute image (of the kernel; formats/jit/image.h makes those of JIT code) is an ET_EXEC
//   file without program headers. Its .text lies at the run-time address, so that readers look up
//   addresses unchanged.
// - A file image has the type, the PT_LOAD headers and the build id of the original, so that the
//   mapping lines of the original fit it. Perl's pprof computes addresses from the one .text
//   section: where executable segments are placed differently in file and memory, it resolves only
//   those of the segment with the lowest sampled function.
//
// Code has no bytes in either form (NOBITS); names need none. A symbol "[NAME]" with the name of
// the file fills each gap between functions, so that no address counts for the function before the
// gap. The last symbol is "_fini", directly after the code: Perl's pprof gives the last symbol no
// size, and needs this name as a separator in the output of addr2line.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/elf/elf_file.h"

namespace profd {

// Whether the symbol fills a gap.
[[nodiscard]] bool is_gap_name(std::string_view name);

struct AbsoluteImage {
  std::vector<ElfSymbol> functions;  // sorted, not overlapping
  std::string build_id;              // raw bytes; empty: none
  // The range of .text, which contains all functions. 0: computed from the functions, so that a
  // later image with more functions may have another mapping line.
  std::uint64_t text_start = 0;
  std::uint64_t text_end = 0;
};

// The mapping line of a profile for an absolute image: from one page before the first function
// (pprof -weblist shows 500 bytes before it) to the end of the last, at the file offset of .text.
struct ImagePlacement {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t file_offset = 0;
};

[[nodiscard]] ImagePlacement placement_of(const AbsoluteImage& image);
[[nodiscard]] std::string encode_absolute_image(const AbsoluteImage& image);

// A function at an address: the one that the file has there, or one that is inlined into it.
struct ImageFrame {
  std::string name;
  std::string file;        // of the source; empty: unknown
  std::uint32_t line = 0;  // 0: unknown
};

struct ImageFrames {
  std::uint64_t address = 0;
  std::vector<ImageFrame> frames{};  // the innermost first; not empty
};

struct FileImage {
  ElfSummary original;
  // The name of the file, for gaps, also the one before the first function. Empty: unknown.
  std::string name;
  std::vector<ElfSymbol> functions;  // virtual addresses of the original, sorted
  // Of addresses that were hit, sorted. An address that no function has gets one of a byte.
  std::vector<ImageFrames> frames{};
};

[[nodiscard]] std::string encode_file_image(const FileImage& image);

}  // namespace profd
