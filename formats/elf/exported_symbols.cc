#include "formats/elf/exported_symbols.h"

#include <algorithm>
#include <array>
#include <string>

#include "formats/elf/elf_tables.h"

namespace profd {
namespace {

constexpr std::size_t kMaxDynamicEntries = 1024;
constexpr std::uint64_t kMaxTableSymbols = 1'000'000;
constexpr std::uint64_t kMaxTableNamesBytes = std::uint64_t{32} << 20;
constexpr std::size_t kPartEntries = 2730;  // 64 KiB of symbols or relocations

std::uint32_t gnu_hash_of(std::string_view name) {
  std::uint32_t hash = 5381;
  for (const char c : name) hash = hash * 33 + static_cast<unsigned char>(c);
  return hash;
}

std::uint32_t hash_of_name(std::string_view name) {
  std::uint32_t hash = 0;
  for (const char c : name) {
    hash = (hash << 4) + static_cast<unsigned char>(c);
    const std::uint32_t high = hash & 0xf0000000;
    hash = (hash ^ high >> 24) & ~high;
  }
  return hash;
}

// Whether the text at this place of a string table is `name`.
bool is_name_at(std::string_view strings, std::uint64_t place, std::string_view name) {
  return place < strings.size() && strings.size() - place > name.size() &&
         strings.substr(place, name.size()) == name && strings[place + name.size()] == '\0';
}

}  // namespace

ExportedSymbols::ExportedSymbols(const CodeFile& file) : file_(&file) {
  const auto& headers = file.program_headers();
  const auto dynamic = std::ranges::find(headers, Elf64_Word{PT_DYNAMIC}, &Elf64_Phdr::p_type);
  if (dynamic == headers.end()) return;
  const std::uint64_t count =
      std::min<std::uint64_t>(dynamic->p_filesz / sizeof(Elf64_Dyn), kMaxDynamicEntries);
  const auto entries = elf::read_table<Elf64_Dyn>(file.fd(), dynamic->p_offset, count);
  if (!entries) return;
  for (const Elf64_Dyn& entry : *entries) {
    if (entry.d_tag == DT_NULL) break;
    add(entry);
  }
}

void ExportedSymbols::add(const Elf64_Dyn& entry) {
  const std::uint64_t value = entry.d_un.d_val;
  switch (entry.d_tag) {
    case DT_SYMTAB:
      symbols_ = value;
      break;
    case DT_STRTAB:
      strings_ = value;
      break;
    case DT_STRSZ:
      strings_bytes_ = value;
      break;
    case DT_GNU_HASH:
      gnu_hash_ = value;
      break;
    case DT_HASH:
      hash_ = value;
      break;
    case DT_RELA:
      relocations_ = value;
      break;
    case DT_RELASZ:
      relocations_bytes_ = value;
      break;
    case DT_NEEDED:
      if (needed_.size() < kMaxNeeded) needed_.push_back(value);
      break;
    default:
      break;
  }
}

std::optional<Elf64_Sym> ExportedSymbols::find(std::string_view name) const {
  if (symbols_ == 0 || strings_ == 0) return std::nullopt;
  if (gnu_hash_ != 0) return find_by_gnu_hash(name);
  if (hash_ != 0) return find_by_hash(name);
  return std::nullopt;
}

// Whether the string at this place begins with `text`, or is it.
bool ExportedSymbols::has_text(std::uint64_t string, std::string_view text, bool is_whole) const {
  const std::size_t bytes = text.size() + (is_whole ? 1 : 0);
  if (string >= strings_bytes_ || strings_bytes_ - string < bytes) return false;
  std::string there(bytes, '\0');
  if (file_->read_loaded(strings_ + string, there.data(), bytes) != bytes) return false;
  return there.starts_with(text) && (!is_whole || there.back() == '\0');
}

std::optional<Elf64_Sym> ExportedSymbols::symbol_at(std::uint64_t index) const {
  Elf64_Sym symbol{};
  if (!read(symbols_ + index * sizeof symbol, symbol)) return std::nullopt;
  if (symbol.st_shndx == SHN_UNDEF) return std::nullopt;
  return symbol;
}

std::optional<Elf64_Sym> ExportedSymbols::symbol_named(std::uint64_t index,
                                                       std::string_view name) const {
  const auto symbol = symbol_at(index);
  if (!symbol || !has_text(symbol->st_name, name, true)) return std::nullopt;
  return symbol;
}

// The table is a header of four numbers, the Bloom filter's words, the buckets, and for each symbol
// from the first hashed one on its hash, whose bit 0 ends a chain.
std::optional<Elf64_Sym> ExportedSymbols::find_by_gnu_hash(std::string_view name) const {
  std::array<std::uint32_t, 4> header{};
  if (!read(gnu_hash_, header)) return std::nullopt;
  const auto [buckets, first, bloom_words, shift] = header;
  if (buckets == 0 || bloom_words == 0) return std::nullopt;
  const std::uint32_t hash = gnu_hash_of(name);
  const std::uint64_t bloom_at = gnu_hash_ + sizeof header;
  std::uint64_t bloom = 0;
  if (!read(bloom_at + hash / 64 % bloom_words * sizeof bloom, bloom)) return std::nullopt;
  const std::uint64_t bits = std::uint64_t{1} << hash % 64 | std::uint64_t{1}
                                                                 << (hash >> shift % 32) % 64;
  if ((bloom & bits) != bits) return std::nullopt;
  const std::uint64_t buckets_at = bloom_at + std::uint64_t{bloom_words} * sizeof bloom;
  std::uint32_t symbol = 0;
  if (!read(buckets_at + hash % buckets * sizeof symbol, symbol)) return std::nullopt;
  if (symbol == 0 || symbol < first) return std::nullopt;
  const std::uint64_t chain_at =
      buckets_at + (std::uint64_t{buckets} + symbol - first) * sizeof symbol;
  std::array<std::uint32_t, kMaxChainSteps> chain{};
  const std::size_t steps =
      file_->read_loaded(chain_at, chain.data(), sizeof chain) / sizeof symbol;
  for (std::size_t i = 0; i < steps; ++i) {
    const auto found =
        (chain[i] | 1) == (hash | 1) ? symbol_named(std::uint64_t{symbol} + i, name) : std::nullopt;
    if (found) return found;
    if ((chain[i] & 1) != 0) break;
  }
  return std::nullopt;
}

// The table is the numbers of buckets and symbols, the buckets, and for each symbol the next one.
std::optional<Elf64_Sym> ExportedSymbols::find_by_hash(std::string_view name) const {
  std::array<std::uint32_t, 2> header{};
  if (!read(hash_, header) || header[0] == 0) return std::nullopt;
  const auto [buckets, symbols] = header;
  const std::uint64_t buckets_at = hash_ + sizeof header;
  const std::uint64_t next_at = buckets_at + std::uint64_t{buckets} * sizeof(std::uint32_t);
  std::uint32_t symbol = 0;
  if (!read(buckets_at + hash_of_name(name) % buckets * sizeof symbol, symbol)) return std::nullopt;
  for (std::size_t i = 0; i < kMaxChainSteps && symbol != 0 && symbol < symbols; ++i) {
    if (const auto found = symbol_named(symbol, name)) return found;
    if (!read(next_at + std::uint64_t{symbol} * sizeof symbol, symbol)) break;
  }
  return std::nullopt;
}

// The lists are not sorted by address.
std::optional<Elf64_Rela> ExportedSymbols::relocation_of(std::uint64_t vaddr) const {
  const std::uint64_t count = std::min(relocations_bytes_ / sizeof(Elf64_Rela), kMaxRelocations);
  if (relocations_ == 0) return std::nullopt;
  std::vector<Elf64_Rela> part(kPartEntries);
  for (std::uint64_t first = 0; first < count; first += part.size()) {
    const std::size_t wanted = std::min<std::uint64_t>(part.size(), count - first);
    const std::size_t there = file_->read_loaded(relocations_ + first * sizeof(Elf64_Rela),
                                                 part.data(), wanted * sizeof(Elf64_Rela)) /
                              sizeof(Elf64_Rela);
    const auto relocations = std::span(part).first(there);
    const auto found = std::ranges::find(relocations, vaddr, &Elf64_Rela::r_offset);
    if (found != relocations.end()) return *found;
    if (there != wanted) break;
  }
  return std::nullopt;
}

// Without an entry in DT_RELA the file has the address already: in DT_RELR the word holds what is
// to be relocated, and the linker fills in the words of a program with fixed addresses.
std::optional<std::uint64_t> ExportedSymbols::target_of_got(std::uint64_t vaddr) const {
  const auto relocation = relocation_of(vaddr);
  if (!relocation) {
    std::uint64_t word = 0;
    return read(vaddr, word) && word != 0 ? std::optional(word) : std::nullopt;
  }
  const auto addend = static_cast<std::uint64_t>(relocation->r_addend);
  switch (ELF64_R_TYPE(relocation->r_info)) {
    case R_X86_64_RELATIVE:
      return addend;
    case R_X86_64_GLOB_DAT:
    case R_X86_64_64: {
      const auto symbol = symbol_at(ELF64_R_SYM(relocation->r_info));
      return symbol ? std::optional(symbol->st_value + addend) : std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

bool ExportedSymbols::is_tls_module(std::uint64_t vaddr) const {
  const auto relocation = relocation_of(vaddr);
  return relocation && ELF64_R_TYPE(relocation->r_info) == R_X86_64_DTPMOD64;
}

bool ExportedSymbols::needs(std::string_view library_prefix) const {
  return std::ranges::any_of(
      needed_, [&](std::uint64_t string) { return has_text(string, library_prefix, false); });
}

std::vector<std::optional<Elf64_Sym>> find_in_symtab(const CodeFile& file,
                                                     std::span<const std::string_view> names) {
  std::vector<std::optional<Elf64_Sym>> found(names.size());
  const auto& sections = file.sections();
  const auto table = std::ranges::find(sections, Elf64_Word{SHT_SYMTAB}, &Elf64_Shdr::sh_type);
  if (table == sections.end() || table->sh_link >= sections.size()) return found;
  const Elf64_Shdr& names_section = sections[table->sh_link];
  if (names_section.sh_size > kMaxTableNamesBytes) return found;
  const std::string strings = file.read(names_section.sh_offset, names_section.sh_size);
  std::uint64_t left = std::min(table->sh_size / sizeof(Elf64_Sym), kMaxTableSymbols);
  std::uint64_t offset = table->sh_offset;
  std::vector<Elf64_Sym> part(kPartEntries);
  while (left > 0 && !strings.empty()) {
    const std::size_t count = std::min<std::uint64_t>(left, part.size());
    if (!elf::read_at(file.fd(), offset, part.data(), count * sizeof(Elf64_Sym))) break;
    for (const Elf64_Sym& symbol : std::span(part).first(count)) {
      if (symbol.st_shndx == SHN_UNDEF) continue;
      const auto name = std::ranges::find_if(names, [&](std::string_view wanted) {
        return is_name_at(strings, symbol.st_name, wanted);
      });
      if (name == names.end()) continue;
      auto& place = found[static_cast<std::size_t>(name - names.begin())];
      if (!place) place = symbol;
    }
    left -= count;
    offset += count * sizeof(Elf64_Sym);
  }
  return found;
}

}  // namespace profd
