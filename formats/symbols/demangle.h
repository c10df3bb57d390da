// The names of functions as they are shown: C++ and Rust demangled to one short form (without
// parameters and return type, and without Rust's hash), the suffixes of clones dropped. Names of
// other languages stay as they are.
//
// Names are hostile: a substitution in a mangled name stands for a part of it, so that the result
// doubles with every few characters. The demangler is libiberty's, in its form that sends the
// result in parts and has its memory on the stack (up to 1 MiB); it is left when the parts exceed
// the limit.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace profd {

// Longer names are not demangled.
inline constexpr std::size_t kMaxMangledBytes = 4096;

// At most kMaxCodeNameBytes of UTF-8, never empty unless `system_name` is. `system_name` is the
// name in the symbol table or in DWARF, uncut.
[[nodiscard]] std::string shown_name(std::string_view system_name);

// Without the suffixes that compilers and linkers add to the names of clones and of parts of
// functions (".cold", ".part.0"), and without the version of a symbol ("@@GLIBC_2.14").
[[nodiscard]] std::string_view without_suffixes(std::string_view system_name);

// Whether the name has the form of a mangled C++ or Rust name.
[[nodiscard]] bool is_mangled(std::string_view system_name);

}  // namespace profd
