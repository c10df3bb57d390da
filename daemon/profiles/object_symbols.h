// Finds the functions in which an object's hit addresses lie, for its image.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectors/parser/parser.h"
#include "daemon/names/symbol_budgets.h"
#include "daemon/profiles/profiled_object.h"
#include "formats/base/result.h"
#include "formats/elf/elf_file.h"

namespace profd {

// Looks in the separate debug file, if the host has one with the file's build id, then in the
// file's own symbols for the other addresses, as pprof does for a file at its path. Returns each
// function once, sorted by address. Used on the worker. Only the parser reads ELF files.
[[nodiscard]] Result<std::vector<ElfSymbol>> find_object_symbols(
    Parser& parser, const ProfiledObject::Image& image, std::span<const std::uint64_t> addresses,
    SymbolBudgets& budgets);

}  // namespace profd
