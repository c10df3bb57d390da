// Texts of DWARF, cut before they are copied or searched: a name may be as long as its file.

#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include <elfutils/libdw.h>
#include <string.h>

#include "formats/symbols/demangle.h"

namespace profd::symbolizer {

// Of one name, or of the directory of a unit. What is shown of a longer text is the same:
// kMaxMangledBytes are demangled, as many others have room for the suffixes of a clone, and of
// other texts kMaxCodeNameBytes are shown.
inline constexpr std::size_t kMaxTextBytes = 2 * kMaxMangledBytes;

// None where libdw has found no text. A view of the mapped file. dwarf_formstring() does not read
// the text: it knows up to where each section of strings ends in a NUL.
[[nodiscard]] inline std::optional<std::string_view> cut_text(const char* text) {
  if (text == nullptr) return std::nullopt;
  return std::string_view(text, ::strnlen(text, kMaxTextBytes));
}

}  // namespace profd::symbolizer
