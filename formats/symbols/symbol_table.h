// The functions at some addresses by a symbol table of an ELF file: System V ABI, "Symbol Table".
//
// One pass over the table in parts of 64 KiB, and nothing is sorted: a browser's table has over
// 100 MB, and a profile some hundred addresses. Only the first 4,000,000 symbols (96 MB) are read.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/symbols/demangle.h"
#include "formats/symbols/read_limits.h"

namespace profd {

// The symbol whose range contains an address.
struct SymbolHit {
  std::uint64_t start = 0;
  std::uint64_t end = 0;   // beyond the last address
  bool has_size = false;   // false: the range ends at the next symbol
  std::string name;        // as in the file
  bool is_folded = false;  // as formats/symbols/folding.h judges it
};

enum class SymbolTableKind : std::uint8_t { kSymtab, kDynsym };

// Longer names are cut. One that is cut is too long to be demangled.
inline constexpr std::size_t kMaxSymbolNameBytes = kMaxMangledBytes + 1;
// Symbols of kSymtab without a size end here at the latest.
inline constexpr std::uint64_t kMaxUnsizedBytes = 4096;

struct SymbolHits {
  std::vector<std::optional<SymbolHit>> hits;
  // The end of the table was not read: it has too many symbols, these overlap too much, or the file
  // ends before. Then an address without a hit may have a symbol.
  bool is_cut = false;
};

// The hits of `addresses`, which are sorted, each once. None of all addresses: the file has no such
// table. The symbols are functions and labels in executable sections:
//  - with a size: the one whose range starts last, of these the shortest; of equal ranges global,
//    weak, local, then the first in the table;
//  - else one without a size. Its range ends at the next symbol of any kind in the section
//    (kSymtab), or is its address alone (kDynsym, which has no local symbols, so that the code
//    behind it is usually another function's). Of a table that is cut the next symbol is not known,
//    so none without a size is found.
// Nothing is found once the limits are spent.
[[nodiscard]] std::optional<SymbolHits> find_symbols(const LimitedFile& file, SymbolTableKind kind,
                                                     std::span<const std::uint64_t> addresses);

// The text at this byte of a string table; empty where there is none, or it cannot be read.
[[nodiscard]] std::string read_symbol_name(const LimitedFile& file, const Elf64_Shdr& strings,
                                           std::uint32_t offset);

}  // namespace profd
