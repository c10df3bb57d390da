#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>

#include "formats/elf_file.h"
#include "formats/elf_tables.h"

namespace profd {
namespace {

constexpr std::uint64_t kMaxSymbols = 4'000'000;
constexpr std::size_t kMaxNameBytes = 4096;
constexpr std::size_t kMaxAllNamesBytes = std::size_t{16} << 20;

// A function of a symbol table, without its name.
struct Function {
  std::uint64_t start = 0;
  std::uint64_t bytes = 0;
  std::uint64_t section_limit = 0;
  std::uint32_t name = 0;  // offset into the string table
  std::uint8_t rank = 0;   // of aliases: global, weak, local
  bool known = false;

  [[nodiscard]] bool covers(std::uint64_t address) const {
    return known && address >= start && address - start < bytes;
  }
};

// Whether `a` is to be preferred: the nearer start, then one with a size, then the better known
// name. Of equals the table's first stays, so that the same file always gives the same names.
bool nearer(const Function& a, const Function& b) {
  if (!a.known || !b.known) return a.known && !b.known;
  if (a.start != b.start) return a.start > b.start;
  if ((a.bytes == 0) != (b.bytes == 0)) return a.bytes != 0;
  return a.rank < b.rank;
}

bool reaches_further(const Function& a, const Function& b) {
  if (!a.known || !b.known) return a.known && !b.known;
  return a.start + a.bytes > b.start + b.bytes;
}

// Finds the functions of few addresses in one pass over many symbols, in (symbols + addresses) *
// log(addresses) whatever the symbols say: each is put only into the slot of the first address at
// or above its start, and the slots are carried upwards afterwards.
class Lookup {
 public:
  explicit Lookup(std::span<const std::uint64_t> addresses)
      : addresses_(addresses.begin(), addresses.end()) {
    std::ranges::sort(addresses_);
    addresses_.erase(std::unique(addresses_.begin(), addresses_.end()), addresses_.end());
    slots_.resize(addresses_.size());
  }

  void add(const Function& function) {
    const auto first = std::ranges::lower_bound(addresses_, function.start);
    if (first == addresses_.end()) return;
    slots_[static_cast<std::size_t>(first - addresses_.begin())].add(function, *first);
  }

  // The functions hit, by address, each once.
  [[nodiscard]] std::vector<Function> hits() const {
    std::vector<Function> found;
    Slot carried;
    for (std::size_t i = 0; i < addresses_.size(); ++i) {
      carried.carry(slots_[i], addresses_[i]);
      const Function hit = carried.hit(addresses_[i]);
      if (hit.known && (found.empty() || found.back().start != hit.start)) found.push_back(hit);
    }
    std::ranges::sort(found, {}, &Function::start);
    const auto same = [](const Function& a, const Function& b) { return a.start == b.start; };
    found.erase(std::unique(found.begin(), found.end(), same), found.end());
    return found;
  }

 private:
  // What is known of an address from the functions that start below it.
  struct Slot {
    Function inner;    // the nearest that covers it
    Function widest;   // the one that reaches furthest: holds `inner`, where functions nest
    Function closest;  // the nearest, whether it covers it or not

    void add(const Function& function, std::uint64_t address) {
      if (function.covers(address) && nearer(function, inner)) inner = function;
      if (reaches_further(function, widest)) widest = function;
      if (nearer(function, closest)) closest = function;
    }

    void carry(const Slot& next, std::uint64_t address) {
      if (next.inner.known || !inner.covers(address)) inner = next.inner;
      if (reaches_further(next.widest, widest)) widest = next.widest;
      if (next.closest.known) closest = next.closest;
    }

    [[nodiscard]] Function hit(std::uint64_t address) const {
      if (inner.known) return inner;
      if (widest.covers(address)) return widest;
      const bool unsized_reaches =
          closest.known && closest.bytes == 0 && address < closest.section_limit;
      return unsized_reaches ? closest : Function{};
    }
  };

  std::vector<std::uint64_t> addresses_;
  std::vector<Slot> slots_;
};

std::uint8_t rank_of(unsigned char info) {
  switch (ELF64_ST_BIND(info)) {
    case STB_GLOBAL:
    case STB_GNU_UNIQUE:
      return 0;
    case STB_WEAK:
      return 1;
    default:
      return 2;
  }
}

std::optional<Function> function_of(const Elf64_Sym& symbol,
                                    const std::vector<Elf64_Shdr>& sections) {
  const unsigned type = ELF64_ST_TYPE(symbol.st_info);
  if (type != STT_FUNC && type != STT_GNU_IFUNC) return std::nullopt;
  if (symbol.st_shndx == SHN_UNDEF || symbol.st_name == 0) return std::nullopt;
  // A size that runs over the end of the address space is damage: the symbol counts as one without.
  const bool sane = symbol.st_size <= std::numeric_limits<std::uint64_t>::max() - symbol.st_value;
  Function function{symbol.st_value, sane ? symbol.st_size : 0, 0,
                    symbol.st_name,  rank_of(symbol.st_info),   true};
  if (symbol.st_shndx < sections.size()) {
    const Elf64_Shdr& section = sections[symbol.st_shndx];
    function.section_limit = section.sh_addr + section.sh_size;
  }
  return function;
}

// By 64 KiB at a time: the table of a browser is over 100 MB.
void scan_symbols(int fd, const Elf64_Shdr& table, const std::vector<Elf64_Shdr>& sections,
                  Lookup& lookup) {
  std::array<Elf64_Sym, 2730> chunk;
  std::uint64_t left = std::min(table.sh_size / sizeof(Elf64_Sym), kMaxSymbols);
  std::uint64_t offset = table.sh_offset;
  while (left > 0) {
    const std::size_t count = std::min<std::uint64_t>(left, chunk.size());
    if (!elf::read_at(fd, offset, chunk.data(), count * sizeof(Elf64_Sym))) return;
    for (std::size_t i = 0; i < count; ++i) {
      if (const auto function = function_of(chunk[i], sections)) lookup.add(*function);
    }
    left -= count;
    offset += count * sizeof(Elf64_Sym);
  }
}

// Cut where it is longer than the cap; empty where the string table has none there.
std::string read_name(int fd, const Elf64_Shdr& strings, std::uint32_t offset) {
  if (offset >= strings.sh_size) return {};
  std::array<char, kMaxNameBytes> text;
  const std::size_t bytes = std::min<std::uint64_t>(text.size(), strings.sh_size - offset);
  if (!elf::read_at(fd, strings.sh_offset + offset, text.data(), bytes)) return {};
  return std::string(text.data(), ::strnlen(text.data(), bytes));
}

const Elf64_Shdr* symbol_table_of(const std::vector<Elf64_Shdr>& sections) {
  for (const Elf64_Word type : {Elf64_Word{SHT_SYMTAB}, Elf64_Word{SHT_DYNSYM}}) {
    const auto table = std::ranges::find(sections, type, &Elf64_Shdr::sh_type);
    const bool usable = table != sections.end() && table->sh_entsize == sizeof(Elf64_Sym) &&
                        table->sh_size > sizeof(Elf64_Sym) && table->sh_link < sections.size() &&
                        sections[table->sh_link].sh_type == SHT_STRTAB;
    if (usable) return &*table;
  }
  return nullptr;
}

}  // namespace

Result<std::vector<ElfSymbol>> find_elf_symbols(int fd, std::span<const std::uint64_t> addresses) {
  const Result<Elf64_Ehdr> header = elf::read_header(fd);
  if (!header) return header.error();
  std::vector<ElfSymbol> symbols;
  const std::vector<Elf64_Shdr> sections = elf::read_section_headers(fd, *header);
  const Elf64_Shdr* table = symbol_table_of(sections);
  if (table == nullptr) return symbols;
  Lookup lookup(addresses);
  scan_symbols(fd, *table, sections, lookup);
  std::size_t names_bytes = 0;
  for (const Function& hit : lookup.hits()) {
    std::string name = read_name(fd, sections[table->sh_link], hit.name);
    names_bytes += name.size();
    if (names_bytes > kMaxAllNamesBytes)
      return fail(ErrorCode::kTooLarge, "an ELF file with over 16 MiB of names");
    if (!name.empty()) symbols.push_back({hit.start, hit.bytes, std::move(name)});
  }
  return symbols;
}

}  // namespace profd
