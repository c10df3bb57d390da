// Which functions of a unit contain an address, inlined ones included.

#pragma once

#include <span>
#include <vector>

#include <elfutils/libdw.h>

#include "collectors/symbolizer/dwarf_budget.h"
#include "collectors/symbolizer/dwarf_units.h"
#include "collectors/symbolizer/scope_names.h"

namespace profd::symbolizer {

struct FunctionChain {
  std::vector<Dwarf_Die> functions;  // the outermost first, then those that are inlined in it
  bool is_cut = false;               // at kMaxDwarfDepth
};

struct UnitFunctions {
  std::vector<FunctionChain> chains;
  ScopeNames scopes;
};

// One chain for each address, in their order. All by one walk over the unit's entries, and by a
// second one, into every entry, where the first finds nothing for an address: a function can be
// declared inside another one. Chains may be missing where the budget ends.
[[nodiscard]] UnitFunctions find_functions(const Dwarf_Die& unit,
                                           std::span<const WantedAddress> addresses,
                                           DwarfBudget& budget);

}  // namespace profd::symbolizer
