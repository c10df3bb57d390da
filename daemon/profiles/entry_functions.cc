#include "daemon/profiles/entry_functions.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "daemon/names/parser_errors.h"

namespace profd {
namespace {

// `functions` are sorted by address. A function without a size reaches to the next one.
const ElfSymbol* function_at(std::span<const ElfSymbol> functions, std::uint64_t address) {
  const auto after = std::ranges::upper_bound(functions, address, {}, &ElfSymbol::address);
  if (after == functions.begin()) return nullptr;
  const ElfSymbol& candidate = *std::prev(after);
  if (candidate.bytes != 0 && address - candidate.address >= candidate.bytes) return nullptr;
  return &candidate;
}

}  // namespace

std::set<std::uint64_t> EntryFunctions::select(const MappedFile& file,
                                               const std::set<std::uint64_t>& file_offsets,
                                               SymbolBudget& budget) {
  std::set<std::uint64_t> selected;
  KnownFile* const known = find_or_read(file);
  if (known == nullptr) return selected;
  std::map<std::uint64_t, std::uint64_t> address_of;
  std::set<std::uint64_t> unknown;
  for (const std::uint64_t offset : file_offsets) {
    const Result<std::uint64_t> address = vaddr_of_offset(*known->elf, offset);
    if (!address) continue;
    address_of.emplace(offset, *address);
    if (!known->in_entry.contains(*address)) unknown.insert(*address);
  }
  if (!unknown.empty() && may_ask(file, *known)) look_up(file, *known, unknown, budget);
  for (const auto& [offset, address] : address_of) {
    const auto answer = known->in_entry.find(address);
    if (answer != known->in_entry.end() && answer->second) selected.insert(offset);
  }
  return selected;
}

void EntryFunctions::trim(std::size_t max_entries, NameCache::Clock::time_point now) {
  std::erase_if(files_, [now](const auto& entry) {
    return entry.second.is_users && now - entry.second.used_at > NameCache::kUnused;
  });
  std::size_t entries = files_.size();
  for (auto& [key, file] : files_) {
    file.has_failed = false;
    entries += file.in_entry.size();
  }
  if (entries > max_entries) files_.clear();
}

bool EntryFunctions::may_ask(const MappedFile& file, const KnownFile& known) {
  return file.fd.valid() && !known.has_failed && known.failures < kMaxFailures;
}

// Null: it has no summary yet, or is not an ELF file.
EntryFunctions::KnownFile* EntryFunctions::find_or_read(const MappedFile& file) {
  KnownFile& known = files_[file.key];
  known.is_users = file.owner != 0;
  known.used_at = NameCache::Clock::now();
  if (known.elf) return &known;
  if (!may_ask(file, known)) return nullptr;
  Result<ElfSummary> elf = parser_.read_elf_summary(file.fd.get());
  if (!elf) {
    known.add_failure(elf.error());
    return nullptr;
  }
  known.elf = std::move(*elf);
  return &known;
}

void EntryFunctions::KnownFile::add_failure(const Error& error) {
  has_failed = true;
  failures =
      is_temporary(error) || error.code == ErrorCode::kTooLarge ? failures + 1 : kMaxFailures;
}

// Looks up all addresses in one pass over the file's symbols.
void EntryFunctions::look_up(const MappedFile& file, KnownFile& known,
                             const std::set<std::uint64_t>& addresses, SymbolBudget& budget) {
  std::vector<std::uint64_t> wanted(addresses.begin(), addresses.end());
  wanted.push_back(known.elf->entry);
  const Result<std::vector<ElfSymbol>> functions =
      parser_.find_elf_symbols(file.fd.get(), wanted, budget);
  if (!functions) {
    known.add_failure(functions.error());
    return;
  }
  const ElfSymbol* const entry = function_at(*functions, known.elf->entry);
  for (const std::uint64_t address : addresses) {
    known.in_entry[address] = entry != nullptr && function_at(*functions, address) == entry;
  }
}

}  // namespace profd
