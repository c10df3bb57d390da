// The functions that an object's hit addresses lie in, for its image.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectors/parser/parser.h"
#include "daemon/profiles/profiled_object.h"
#include "daemon/samples/symbol_budgets.h"
#include "formats/base/result.h"
#include "formats/elf/elf_file.h"

namespace profd {

// By the file's separate debug file, where the host has one of its build id, and for addresses that
// it does not name by the file's own symbols: what pprof would find for a file at its path. Sorted
// by address, each once. On the worker; ELF files are read by the parser alone.
[[nodiscard]] Result<std::vector<ElfSymbol>> find_object_symbols(
    Parser& parser, const ProfiledObject::Image& image, std::span<const std::uint64_t> addresses,
    SymbolBudgets& budgets);

}  // namespace profd
