// Which unit of the DWARF of a file contains which address.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <elfutils/libdw.h>

#include "collectors/symbolizer/dwarf_budget.h"

namespace profd::symbolizer {

struct WantedAddress {
  std::uint64_t address = 0;
  std::uint32_t index = 0;  // in the request; the most important address has the smallest
};

struct UnitAddresses {
  Dwarf_Die unit{};
  std::vector<WantedAddress> addresses;  // sorted by address
};

// The units that contain one of the addresses, the one with the smallest index first. By
// .debug_aranges, and by the ranges of the units that are not in it: clang and rustc write none.
// An address that two units contain is the first one's.
[[nodiscard]] std::vector<UnitAddresses> find_units(Dwarf* dwarf,
                                                    std::span<const std::uint64_t> addresses,
                                                    DwarfBudget& budget);

// Linkers leave the ranges of functions that they discard at 0 or 1.
[[nodiscard]] inline bool is_of_code(Dwarf_Addr start, Dwarf_Addr end) {
  return start > 1 && start < end;
}

}  // namespace profd::symbolizer
