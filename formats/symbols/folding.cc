#include "formats/symbols/folding.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "formats/symbols/demangle.h"

namespace profd {
namespace {

// What aliases of one function have in common.
std::string_view core_of(std::string_view name) {
  name = without_suffixes(name);
  constexpr std::string_view kInternal = "GI_";
  while (true) {
    const std::string_view before = name;
    name.remove_prefix(std::min(name.find_first_not_of('_'), name.size()));
    if (name.starts_with(kInternal)) name.remove_prefix(kInternal.size());
    if (name.size() == before.size()) return name;
  }
}

bool is_other_function(const NamedSymbol& a, const NamedSymbol& b) {
  const std::string_view core = core_of(a.name);
  const std::string_view other = core_of(b.name);
  return a.binding == b.binding && core.find(other) == core.npos && other.find(core) == other.npos;
}

bool may_be_alias(const NamedSymbol& symbol) {
  return symbol.binding == SymbolBinding::kWeak || symbol.name.find('@') != symbol.name.npos;
}

}  // namespace

bool are_folded(std::span<const NamedSymbol> symbols, bool is_dynsym) {
  std::string shown;  // the name of the first mangled one
  std::vector<NamedSymbol> others;
  for (const NamedSymbol& symbol : symbols) {
    if (!is_mangled(symbol.name)) {
      others.push_back(symbol);
      continue;
    }
    const std::string name = shown_name(symbol.name);
    if (shown.empty()) shown = name;
    if (shown != name) return true;
  }
  if (is_dynsym || std::ranges::any_of(others, may_be_alias)) return false;
  return std::ranges::any_of(others, [&others](const NamedSymbol& symbol) {
    return is_other_function(others.front(), symbol);
  });
}

}  // namespace profd
