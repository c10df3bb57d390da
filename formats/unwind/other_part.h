// The part of a function that compilers put elsewhere, without a symbol: its cold blocks. In large
// functions with many jumps, such as the loop of an interpreter, it may be nearly all of it.

#pragma once

#include <cstdint>

#include "formats/elf/code_file.h"

namespace profd {

// Offsets in the file.
struct FunctionPart {
  std::uint32_t start = 0;
  std::uint32_t bytes = 0;  // 0: there is none
};

inline constexpr unsigned kMinHitsOfPart = 3;

// The FDE which direct jumps from the function hit at other addresses than its start, at least
// kMinHitsOfPart times. A jump of a compiler leads to another function's start only. All bytes are
// looked at, as if an instruction began at each; what only seems to be a jump leads to some address
// within 4 GiB, so hits nothing as often as that.
//
// `vaddr` and `bytes` are those of the function. Reads .eh_frame as a whole.
[[nodiscard]] FunctionPart find_other_part(const CodeFile& file, std::uint64_t vaddr,
                                           std::uint64_t bytes);

}  // namespace profd
