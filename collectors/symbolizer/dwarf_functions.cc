#include "collectors/symbolizer/dwarf_functions.h"

#include <dwarf.h>

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace profd::symbolizer {
namespace {

// Which entries can contain code.
enum class EntryKind { kNone, kScope, kBlock, kFunction };

EntryKind kind_of(int tag, bool has_code_in_types) {
  switch (tag) {
    case DW_TAG_subprogram:
    case DW_TAG_inlined_subroutine:
      return EntryKind::kFunction;
    case DW_TAG_lexical_block:
    case DW_TAG_try_block:
    case DW_TAG_catch_block:
      return EntryKind::kBlock;
    case DW_TAG_namespace:
    case DW_TAG_module:
      return EntryKind::kScope;
    case DW_TAG_structure_type:
    case DW_TAG_enumeration_type:
    case DW_TAG_union_type:
      return has_code_in_types ? EntryKind::kScope : EntryKind::kNone;
    default:
      return EntryKind::kNone;
  }
}

class FunctionWalk {
 public:
  // Positions in the list of addresses, ascending.
  using Subset = std::vector<std::uint32_t>;

  FunctionWalk(std::span<const WantedAddress> addresses, UnitFunctions& found, DwarfBudget& budget)
      : addresses_(addresses), chains_(found.chains), scopes_(found.scopes), budget_(budget) {}

  void run(const Dwarf_Die& unit, const Subset& wanted, bool is_thorough) {
    is_thorough_ = is_thorough;
    Dwarf_Die entry = unit;
    has_code_in_types_ = ::dwarf_srclang(&entry) == DW_LANG_Rust;
    visit_children(unit, wanted, {.depth = 1});
  }

 private:
  struct Place {
    std::size_t depth = 0;
    std::size_t functions = 0;  // that the entry lies in
    ScopeNames::Scope scope = ScopeNames::kUnit;
  };

  void visit_children(const Dwarf_Die& parent, const Subset& wanted, const Place& place);
  void visit(Dwarf_Die& entry, const Subset& wanted, const Place& place);
  void add_function(const Dwarf_Die& entry, const Subset& inside, std::size_t functions);
  Subset subset_in(Dwarf_Die& entry, const Subset& wanted);

  std::span<const WantedAddress> addresses_;
  std::vector<FunctionChain>& chains_;
  ScopeNames& scopes_;
  DwarfBudget& budget_;
  bool is_thorough_ = false;
  bool has_code_in_types_ = false;
};

void FunctionWalk::visit_children(const Dwarf_Die& parent, const Subset& wanted,
                                  const Place& place) {
  Dwarf_Die above = parent;
  Dwarf_Die entry{};
  if (::dwarf_child(&above, &entry) != 0) return;
  if (place.depth > kMaxDwarfDepth) {
    for (const std::uint32_t position : wanted) chains_[position].is_cut = true;
    return;
  }
  // An entry whose sibling lies before it would make a cycle.
  for (Dwarf_Off last = ::dwarf_dieoffset(&above); budget_.take_entry();) {
    const Dwarf_Off offset = ::dwarf_dieoffset(&entry);
    if (offset <= last || !budget_.take_bytes(offset - last)) return;
    last = offset;
    visit(entry, wanted, place);
    Dwarf_Die next{};
    if (::dwarf_siblingof(&entry, &next) != 0) return;
    entry = next;
  }
}

void FunctionWalk::visit(Dwarf_Die& entry, const Subset& wanted, const Place& place) {
  const int tag = ::dwarf_tag(&entry);
  const EntryKind kind = kind_of(tag, has_code_in_types_);
  Place inner{.depth = place.depth + 1, .functions = place.functions, .scope = place.scope};
  if (tag == DW_TAG_namespace) inner.scope = scopes_.add_namespace(entry, place.scope);
  if (tag == DW_TAG_subprogram) scopes_.add_function(entry, place.scope);
  Subset inside;
  if (kind == EntryKind::kFunction || kind == EntryKind::kBlock) inside = subset_in(entry, wanted);
  if (!inside.empty()) {
    if (kind == EntryKind::kFunction) add_function(entry, inside, inner.functions++);
    visit_children(entry, inside, inner);
  } else if (kind == EntryKind::kScope || is_thorough_) {
    visit_children(entry, wanted, inner);
  }
}

void FunctionWalk::add_function(const Dwarf_Die& entry, const Subset& inside,
                                std::size_t functions) {
  for (const std::uint32_t position : inside) {
    std::vector<Dwarf_Die>& chain = chains_[position].functions;
    // What a sibling that overlaps with this entry has left.
    chain.resize(functions);
    chain.push_back(entry);
  }
}

void keep_each_once(FunctionWalk::Subset& subset) {
  std::ranges::sort(subset);
  subset.erase(std::unique(subset.begin(), subset.end()), subset.end());
}

FunctionWalk::Subset FunctionWalk::subset_in(Dwarf_Die& entry, const Subset& wanted) {
  Subset inside;
  Dwarf_Addr base = 0;
  Dwarf_Addr start = 0;
  Dwarf_Addr end = 0;
  std::ptrdiff_t at = 0;
  const auto address_of = [this](std::uint32_t position) { return addresses_[position].address; };
  while ((at = ::dwarf_ranges(&entry, at, &base, &start, &end)) > 0 && budget_.take_step()) {
    if (!is_of_code(start, end)) continue;
    const auto first = std::ranges::lower_bound(wanted, start, {}, address_of);
    const auto last = std::ranges::lower_bound(first, wanted.end(), end, {}, address_of);
    inside.insert(inside.end(), first, last);
    // Ranges that repeat must not make the list longer than the addresses are.
    if (inside.size() > wanted.size()) keep_each_once(inside);
  }
  keep_each_once(inside);
  return inside;
}

}  // namespace

UnitFunctions find_functions(const Dwarf_Die& unit, std::span<const WantedAddress> addresses,
                             DwarfBudget& budget) {
  UnitFunctions found;
  found.chains.resize(addresses.size());
  FunctionWalk walk(addresses, found, budget);
  FunctionWalk::Subset wanted(addresses.size());
  std::iota(wanted.begin(), wanted.end(), 0U);
  walk.run(unit, wanted, false);
  std::erase_if(wanted,
                [&found](auto position) { return !found.chains[position].functions.empty(); });
  if (!wanted.empty()) walk.run(unit, wanted, true);
  return found;
}

}  // namespace profd::symbolizer
