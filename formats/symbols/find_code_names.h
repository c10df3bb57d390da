// The names of the code of an ELF file, out of the file itself and its debug file. DWARF is not
// read here.
//
// The first of these that contains an address names it: the Go runtime's table (its frames have
// inlined functions, files and lines), .symtab of the debug file, .symtab of the file,
// .gnu_debugdata, .dynsym, and the slots of the PLT. A symbol without a size names an address only
// where no symbol with a size contains it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "formats/base/result.h"
#include "formats/elf/elf_file.h"
#include "formats/symbols/code_names.h"

namespace profd {

inline constexpr std::size_t kMaxNamedAddresses = 16384;
// Of the names and files of one answer; the addresses beyond that are kOverBudget.
inline constexpr std::size_t kMaxNamesBytes = std::size_t{8} << 20;

// One answer for each of `addresses`, which are virtual addresses of the file in any order, in
// their order. `debug_fd` is -1 where there is no debug file; one that cannot be read, or that has
// another build id, is ignored. Addresses that have no name for want of budget are kOverBudget;
// where a table was not read to its end for another reason, they are kRefused.
// Errors: those of CodeFile::open(), and kTooLarge above kMaxNamedAddresses.
[[nodiscard]] Result<std::vector<AddressNames>> find_code_names(
    int fd, int debug_fd, std::span<const std::uint64_t> addresses, SymbolBudget& budget);

}  // namespace profd
