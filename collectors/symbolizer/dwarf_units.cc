#include "collectors/symbolizer/dwarf_units.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include <boost/unordered/unordered_flat_set.hpp>

namespace profd::symbolizer {
namespace {

class UnitFinder {
 public:
  UnitFinder(Dwarf* dwarf, std::span<const std::uint64_t> addresses, DwarfBudget& budget)
      : dwarf_(dwarf), budget_(budget) {
    wanted_.reserve(addresses.size());
    for (std::uint32_t i = 0; i < addresses.size(); ++i) {
      wanted_.push_back({.address = addresses[i], .index = i});
    }
    std::ranges::sort(wanted_, {}, &WantedAddress::address);
  }

  std::vector<UnitAddresses> run() {
    add_units_of_table();
    add_other_units();
    std::vector<UnitAddresses> units;
    for (auto& [offset, unit] : units_) {
      std::ranges::sort(unit.addresses, {}, &WantedAddress::address);
      units.push_back(std::move(unit));
    }
    std::ranges::sort(units, {}, [](const UnitAddresses& unit) {
      return std::ranges::min(unit.addresses, {}, &WantedAddress::index).index;
    });
    return units;
  }

 private:
  struct TableRange {
    Dwarf_Addr start = 0;
    Dwarf_Addr end = 0;
    Dwarf_Off unit = 0;
  };

  std::vector<TableRange> wanted_ranges_of_table();
  void add_units_of_table();
  void add_other_units();
  void add_ranges_of(Dwarf_Die& unit);
  void add_range(Dwarf_Addr start, Dwarf_Addr end, Dwarf_Off unit);

  Dwarf* dwarf_;
  DwarfBudget& budget_;
  std::vector<WantedAddress> wanted_;  // sorted; an address that is in a unit leaves the list
  boost::unordered_flat_set<Dwarf_Off> in_table_;
  std::map<Dwarf_Off, UnitAddresses> units_;  // by the offset of the unit's entry
};

// Those with an address that is wanted.
std::vector<UnitFinder::TableRange> UnitFinder::wanted_ranges_of_table() {
  std::vector<TableRange> ranges;
  Dwarf_Aranges* table = nullptr;
  std::size_t count = 0;
  if (::dwarf_getaranges(dwarf_, &table, &count) != 0) return ranges;
  for (std::size_t i = 0; i < count && budget_.take_step(); ++i) {
    Dwarf_Addr start = 0;
    Dwarf_Word bytes = 0;
    Dwarf_Off unit = 0;
    if (::dwarf_getarangeinfo(::dwarf_onearange(table, i), &start, &bytes, &unit) != 0) continue;
    in_table_.insert(unit);
    const auto first = std::ranges::lower_bound(wanted_, start, {}, &WantedAddress::address);
    if (first == wanted_.end() || first->address >= start + bytes) continue;
    ranges.push_back({.start = start, .end = start + bytes, .unit = unit});
  }
  return ranges;
}

// Of a function that several units have, the linker keeps the code of the first one, and lets the
// entries of the others refer to it as well. The table is sorted by address.
void UnitFinder::add_units_of_table() {
  std::vector<TableRange> ranges = wanted_ranges_of_table();
  std::ranges::sort(ranges, {}, &TableRange::unit);
  for (const TableRange& range : ranges) add_range(range.start, range.end, range.unit);
}

void UnitFinder::add_other_units() {
  Dwarf_Off offset = 0;
  Dwarf_Off next = 0;
  std::size_t header_bytes = 0;
  // Not dwarf_get_units(), which opens .dwo files.
  // Each unit may have much before its ranges: texts, and abbreviations of its own.
  while (!wanted_.empty() && budget_.take_entry() && budget_.check_time() &&
         ::dwarf_nextcu(dwarf_, offset, &next, &header_bytes, nullptr, nullptr, nullptr) == 0 &&
         next > offset) {
    Dwarf_Die unit{};
    if (!in_table_.contains(offset + header_bytes) &&
        ::dwarf_offdie(dwarf_, offset + header_bytes, &unit) != nullptr) {
      add_ranges_of(unit);
    }
    offset = next;
  }
}

void UnitFinder::add_ranges_of(Dwarf_Die& unit) {
  Dwarf_Addr base = 0;
  Dwarf_Addr start = 0;
  Dwarf_Addr end = 0;
  std::ptrdiff_t at = 0;
  while ((at = ::dwarf_ranges(&unit, at, &base, &start, &end)) > 0 && budget_.take_step()) {
    add_range(start, end, ::dwarf_dieoffset(&unit));
  }
}

void UnitFinder::add_range(Dwarf_Addr start, Dwarf_Addr end, Dwarf_Off unit) {
  if (!is_of_code(start, end)) return;
  const auto first = std::ranges::lower_bound(wanted_, start, {}, &WantedAddress::address);
  const auto last =
      std::ranges::lower_bound(first, wanted_.end(), end, {}, &WantedAddress::address);
  if (first == last) return;
  UnitAddresses& found = units_[unit];
  if (found.addresses.empty() && ::dwarf_offdie(dwarf_, unit, &found.unit) == nullptr) {
    units_.erase(unit);
    return;
  }
  found.addresses.insert(found.addresses.end(), first, last);
  wanted_.erase(first, last);
}

}  // namespace

std::vector<UnitAddresses> find_units(Dwarf* dwarf, std::span<const std::uint64_t> addresses,
                                      DwarfBudget& budget) {
  return UnitFinder(dwarf, addresses, budget).run();
}

}  // namespace profd::symbolizer
