#include "daemon/profiles/object_symbols.h"

#include <algorithm>
#include <iterator>

#include "collectors/files/debug_files.h"
#include "collectors/files/reach.h"

namespace profd {
namespace {

constexpr std::uint32_t kRoot = 0;  // the owner of debug files

bool covers(const std::vector<ElfSymbol>& functions, std::uint64_t address) {
  const auto after = std::ranges::upper_bound(functions, address, {}, &ElfSymbol::address);
  if (after == functions.begin()) return false;
  const ElfSymbol& function = *std::prev(after);
  return function.bytes == 0 ? function.address == address
                             : address - function.address < function.bytes;
}

std::vector<ElfSymbol> symbols_of_debug_file(Parser& parser, const ProfiledObject::Image& image,
                                             std::span<const std::uint64_t> addresses,
                                             SymbolBudgets& budgets) {
  if (image.elf.build_id.empty()) return {};
  UnwindSource source;
  source.build_id = image.elf.build_id;
  const UniqueFd debug = open_debug_file(source, image.path);
  if (!debug.valid() || !may_be_reached_by_others(debug.get())) return {};
  auto functions = parser.find_elf_symbols(debug.get(), addresses, budgets.of(kRoot));
  return functions ? std::move(*functions) : std::vector<ElfSymbol>{};
}

}  // namespace

Result<std::vector<ElfSymbol>> find_object_symbols(Parser& parser,
                                                   const ProfiledObject::Image& image,
                                                   std::span<const std::uint64_t> addresses,
                                                   SymbolBudgets& budgets) {
  std::vector<ElfSymbol> functions = symbols_of_debug_file(parser, image, addresses, budgets);
  std::vector<std::uint64_t> rest;
  std::ranges::copy_if(addresses, std::back_inserter(rest),
                       [&](std::uint64_t address) { return !covers(functions, address); });
  if (rest.empty()) return functions;
  auto own = parser.find_elf_symbols(image.fd, rest, budgets.of(image.owner));
  if (!own && functions.empty()) return own.error();
  if (!own) return functions;
  std::erase_if(*own,
                [&](const ElfSymbol& function) { return covers(functions, function.address); });
  std::ranges::move(*own, std::back_inserter(functions));
  std::ranges::sort(functions, {}, &ElfSymbol::address);
  return functions;
}

}  // namespace profd
