// The parser's results as bytes, and back. A child is believed no more than a stranger: what
// doesn't fit its form is kMalformed.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/base/result.h"
#include "formats/elf/elf_file.h"
#include "formats/unwind/cfi_tables.h"

namespace profd::parser {

struct FoundSymbols {
  std::uint64_t table_bytes_left = 0;  // of the budget
  std::vector<ElfSymbol> symbols;
};

[[nodiscard]] std::string encode(const UnwindSource& source);
[[nodiscard]] std::string encode(const ElfSummary& summary);
[[nodiscard]] std::string encode(const FoundSymbols& found);

[[nodiscard]] Result<UnwindSource> decode_unwind_source(std::string_view bytes);
[[nodiscard]] Result<ElfSummary> decode_elf_summary(std::string_view bytes);
[[nodiscard]] Result<FoundSymbols> decode_found_symbols(std::string_view bytes);

}  // namespace profd::parser
