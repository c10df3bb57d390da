// Several symbols with the same range: names that the source gives one function (aliases), or
// functions of the same code that the linker or the compiler has folded into one. A symbol table
// has no mark of that, so this is a judgement by the names.
//
// Folded are:
//  - two mangled names that are shown differently. Constructors (C1, C2) and overloads are not.
//  - the first of the other names and one more of .symtab with the same binding, of which neither
//    contains the other, after leading underscores and "GI_", if none of the other names is weak or
//    has a version. C libraries name one function malloc, __libc_malloc and (local)
//    __GI___libc_malloc, and by a weak symbol more. Two names that each fit the first are aliases.
// Other names in .dynsym are never folded: C libraries export functions by two global names.

#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace profd {

enum class SymbolBinding : std::uint8_t { kGlobal, kWeak, kLocal };

struct NamedSymbol {
  std::string name;  // as in the file
  SymbolBinding binding = SymbolBinding::kGlobal;
};

[[nodiscard]] bool are_folded(std::span<const NamedSymbol> symbols, bool is_dynsym);

}  // namespace profd
