// The namespaces of the functions of a unit. A function with internal linkage has no linkage name
// in gcc's DWARF, only its own: where it is inlined it would have another name than in the symbol
// table.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>
#include <elfutils/libdw.h>

namespace profd::symbolizer {

class ScopeNames {
 public:
  using Scope = std::uint32_t;

  static constexpr Scope kUnit = 0;  // outside of all namespaces

  // The namespace of this entry, which lies in `outer`. `outer` where there are too many, or the
  // name gets too long.
  Scope add_namespace(Dwarf_Die& entry, Scope outer);
  // Functions beyond kMaxFunctions are shown without their namespaces.
  void add_function(Dwarf_Die& entry, Scope scope) {
    if (scope == kUnit || scopes_.size() >= kMaxFunctions) return;
    scopes_.emplace(::dwarf_dieoffset(&entry), scope);
  }

  // What stands before the function's own name: "profd::(anonymous namespace)::". The function may
  // be an inlined one, whose origin was added. Empty: none.
  [[nodiscard]] std::string_view prefix_of(const Dwarf_Die& function) const;

 private:
  static constexpr std::size_t kMaxFunctions = 500'000;  // of a unit; 30 MiB at most

  std::vector<std::string> prefixes_ = std::vector<std::string>(1);
  boost::unordered_flat_map<Dwarf_Off, Scope> scopes_;  // by the offset of the function
};

}  // namespace profd::symbolizer
