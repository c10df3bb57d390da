// The slots of a PLT (procedure linkage table): short code that jumps to a function of another
// library, by an address in the GOT. They have no symbols; the relocation of the GOT's entry names
// the function. x86-64 psABI, "Procedure Linkage Table".
//
// Each slot is decoded, since linkers order the slots otherwise than the relocations.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/symbols/read_limits.h"

namespace profd {

struct PltHit {
  std::uint64_t address = 0;
  std::string function;        // mangled, as in .dynsym; empty: see `resolver`
  std::uint64_t resolver = 0;  // of an indirect function of the file itself; 0: none
};

// The slots that contain some of `addresses`, which are sorted.
[[nodiscard]] std::vector<PltHit> find_plt_slots(const LimitedFile& file,
                                                 std::span<const std::uint64_t> addresses);

}  // namespace profd
