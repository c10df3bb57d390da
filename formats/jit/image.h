// One ELF file that stands in for the JIT code of a process in a profile: code bytes, symbols, line
// numbers and a build id of the generations that were sampled.
//
// A profile knows addresses, and no times. So each generation gets a range of addresses of its own:
// its original one where no other claims it, so that calls between functions read right when they
// are disassembled; else one above all that a user program can map. Whoever writes the profile
// moves its pcs along.
//
// The shape is that of an absolute image (elf_image.h): ET_EXEC, no program headers, so that
// addresses are looked up as they are. Code that lies far apart is in sections of its own, the
// lowest being ".text", which Perl's pprof computes all file offsets from. Lines are DWARF 4: one
// compilation unit, a subprogram and a line sequence for every function (`go tool pprof` finds
// names in nothing else), fake lines for those that have none.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/base/address_range.h"
#include "formats/elf/image.h"

namespace profd {

struct JitImageLine {
  std::uint32_t code_offset = 0;  // sorted, in the code
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  std::uint32_t file = 0;  // in JitImage::files

  friend bool operator==(const JitImageLine&, const JitImageLine&) = default;
};

struct JitImageFunction {
  std::uint64_t address = 0;  // where it ran
  std::uint64_t bytes = 0;    // not 0
  std::string name;           // as it will be shown; cut at a NUL
  std::string code;           // `bytes` of them, or empty where they aren't known
  std::vector<JitImageLine> lines;
};

struct JitImage {
  std::vector<std::string> files;  // "file://" is cut off
  std::string directory;           // what relative names of files start from; empty: they stand
  std::vector<JitImageFunction> functions;
};

// Where things lie in the image.
struct JitImageLayout {
  std::vector<std::uint64_t> addresses;    // of each function, in their order
  std::vector<ImagePlacement> placements;  // the profile's mapping lines, sorted
};

// Those given first keep their addresses. `occupied`: where other mapping lines of the profile lie,
// sorted; no function or line of the image will. `unnamed`: sampled addresses of no known function,
// sorted; no function will cover them, so that no wrong name is shown.
[[nodiscard]] JitImageLayout lay_out_jit_image(const std::vector<JitImageFunction>& functions,
                                               std::span<const AddressRange> occupied = {},
                                               std::span<const std::uint64_t> unnamed = {});

struct EncodedJitImage {
  std::string bytes;
  std::string build_id;  // raw: a hash of names, addresses, code and lines
};

// `layout` is the one made from these functions. There is at least one.
[[nodiscard]] EncodedJitImage encode_jit_image(const JitImage& image, const JitImageLayout& layout);

}  // namespace profd
