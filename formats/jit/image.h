// An ELF file that stands for the JIT code of a process in a profile: code bytes, symbols, line
// numbers and a build id of the generations that were sampled.
//
// A profile has addresses, and no times. So each generation gets addresses of its own: its original
// ones, if no other generation has them, so that calls between functions are right in a
// disassembly; otherwise addresses above all that a user program can map. The writer of the profile
// moves the pcs by the same distance.
//
// The file is an absolute image (formats/elf/image.h): ET_EXEC without program headers, so that
// addresses are looked up as they are. Code that lies far apart is in separate sections; the lowest
// one is ".text", from which Perl's pprof computes all file offsets. Lines are DWARF 4: one
// compilation unit, and for each function a subprogram and a line sequence (`go tool pprof` finds
// names in nothing else). A function without lines gets a fake one.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/base/address_range.h"
#include "formats/elf/image.h"

namespace profd {

struct JitImageLine {
  std::uint32_t code_offset = 0;  // from the start of the code
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  std::uint32_t file = 0;  // in JitImage::files

  friend bool operator==(const JitImageLine&, const JitImageLine&) = default;
};

struct JitImageFunction {
  std::uint64_t address = 0;        // where it ran; 0 in a layout: nowhere, without code bytes
  std::uint64_t bytes = 0;          // not 0
  std::string name;                 // as it will be shown; cut at a NUL
  std::string code;                 // `bytes` long, or empty where it isn't known
  std::vector<JitImageLine> lines;  // sorted by code_offset
};

struct JitImage {
  std::vector<std::string> files;  // "file://" is cut off
  std::string directory;           // for relative file names; empty: they stay as they are
  std::vector<JitImageFunction> functions;
  // What the image stands for; "[NAME]" is the file of functions without lines, and fills gaps.
  std::string name = "jit";
};

// The addresses of an image.
struct JitImageLayout {
  std::vector<std::uint64_t> addresses;    // of each function, in the functions' order
  std::vector<ImagePlacement> placements;  // the profile's mapping lines, sorted
};

// Of functions that overlap, the first keeps its addresses. `occupied` are the ranges of other
// mapping lines of the profile, sorted: no function or line of the image lies there. `unnamed` are
// sampled addresses of no known function, sorted: no function covers them, so that no wrong name is
// shown.
[[nodiscard]] JitImageLayout lay_out_jit_image(const std::vector<JitImageFunction>& functions,
                                               std::span<const AddressRange> occupied = {},
                                               std::span<const std::uint64_t> unnamed = {});

struct EncodedJitImage {
  std::string bytes;
  std::string build_id;  // raw bytes: a hash of names, addresses, code and lines
};

// `layout` is that of these functions. There is at least one.
[[nodiscard]] EncodedJitImage encode_jit_image(const JitImage& image, const JitImageLayout& layout);

}  // namespace profd
