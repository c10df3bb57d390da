#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>

#include "formats/elf/elf_file.h"
#include "formats/elf/elf_tables.h"

namespace profd {
namespace {

constexpr std::uint64_t kMaxSymbols = 4'000'000;
constexpr std::uint64_t kMaxListedSymbols = 200'000;
constexpr std::size_t kMaxNameBytes = 1024;
constexpr std::size_t kMaxAllNamesBytes = std::size_t{1} << 20;

// A file system that compresses may store a table in fewer bytes, and a small file in none; but
// holes must not count as tables.
constexpr std::uint64_t kMaxCompression = 16;
constexpr std::uint64_t kUnallocatedBytes = std::uint64_t{1} << 20;

using Clock = std::chrono::steady_clock;

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

// All that are added; of several at one address the one that is preferred.
class FunctionList {
 public:
  void add(const Function& function) { functions_.push_back(function); }

  [[nodiscard]] std::vector<Function> sorted() {
    std::ranges::stable_sort(functions_, [](const Function& a, const Function& b) {
      return a.start != b.start ? a.start < b.start : nearer(a, b);
    });
    const auto same = [](const Function& a, const Function& b) { return a.start == b.start; };
    functions_.erase(std::unique(functions_.begin(), functions_.end(), same), functions_.end());
    return std::move(functions_);
  }

 private:
  std::vector<Function> functions_;
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

std::uint64_t table_bytes(const Elf64_Shdr& table) {
  return std::min(table.sh_size, kMaxSymbols * sizeof(Elf64_Sym));
}

// By 64 KiB at a time: the table of a browser is over 100 MB. False when the time was over first.
// `functions` has add(Function).
template <class Functions>
bool scan_symbols(int fd, const Elf64_Shdr& table, const std::vector<Elf64_Shdr>& sections,
                  Clock::time_point until, Functions& functions) {
  std::array<Elf64_Sym, 2730> chunk;
  std::uint64_t left = table_bytes(table) / sizeof(Elf64_Sym);
  std::uint64_t offset = table.sh_offset;
  while (left > 0) {
    if (Clock::now() >= until) return false;
    const std::size_t count = std::min<std::uint64_t>(left, chunk.size());
    if (!elf::read_at(fd, offset, chunk.data(), count * sizeof(Elf64_Sym))) return true;
    for (std::size_t i = 0; i < count; ++i) {
      if (const auto function = function_of(chunk[i], sections)) functions.add(*function);
    }
    left -= count;
    offset += count * sizeof(Elf64_Sym);
  }
  return true;
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

bool is_on_disk(const struct stat& file, std::uint64_t bytes) {
  return bytes <=
         static_cast<std::uint64_t>(file.st_blocks) * 512 * kMaxCompression + kUnallocatedBytes;
}

Error too_large(const char* what) { return fail(ErrorCode::kTooLarge, what); }

// None of the functions after those whose names are as much as an image may have.
std::vector<ElfSymbol> with_names(int fd, const Elf64_Shdr& strings,
                                  const std::vector<Function>& functions, Clock::time_point until) {
  std::vector<ElfSymbol> symbols;
  std::size_t names_bytes = 0;
  for (const Function& function : functions) {
    if (Clock::now() >= until) break;
    std::string name = read_name(fd, strings, function.name);
    names_bytes += name.size();
    if (names_bytes > kMaxAllNamesBytes) break;
    if (!name.empty()) symbols.push_back({function.start, function.bytes, std::move(name)});
  }
  return symbols;
}

Result<std::vector<ElfSymbol>> find_symbols(int fd, const struct stat& file,
                                            std::span<const std::uint64_t> addresses,
                                            std::uint64_t& bytes_left, Clock::time_point until) {
  const Result<Elf64_Ehdr> header = elf::read_header(fd);
  if (!header) return header.error();
  const std::vector<Elf64_Shdr> sections = elf::read_section_headers(fd, *header);
  const Elf64_Shdr* table = symbol_table_of(sections);
  if (table == nullptr) return std::vector<ElfSymbol>{};
  const std::uint64_t bytes = table_bytes(*table);
  if (!is_on_disk(file, bytes)) return too_large("an ELF file whose symbol table is a hole");
  if (bytes > bytes_left) return too_large("an ELF file with more symbols than may yet be read");
  bytes_left -= bytes;
  Lookup lookup(addresses);
  if (!scan_symbols(fd, *table, sections, until, lookup)) {
    return too_large("an ELF file whose symbols take too long to read");
  }
  return with_names(fd, sections[table->sh_link], lookup.hits(), until);
}

}  // namespace

Result<std::vector<ElfSymbol>> find_elf_symbols(int fd, std::span<const std::uint64_t> addresses,
                                                SymbolBudget& budget) {
  struct stat file {};
  if (::fstat(fd, &file) != 0) return fail_errno("could not stat an ELF file");
  if (file.st_uid == 0) {
    std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();
    return find_symbols(fd, file, addresses, unlimited, Clock::time_point::max());
  }
  const Clock::time_point started = Clock::now();
  auto symbols = find_symbols(fd, file, addresses, budget.table_bytes, started + budget.time);
  budget.time -= Clock::now() - started;
  return symbols;
}

Result<std::vector<ElfSymbol>> list_elf_functions(int fd) {
  const Result<Elf64_Ehdr> header = elf::read_header(fd);
  if (!header) return header.error();
  const std::vector<Elf64_Shdr> sections = elf::read_section_headers(fd, *header);
  const Elf64_Shdr* table = symbol_table_of(sections);
  if (table == nullptr) return std::vector<ElfSymbol>{};
  if (table->sh_size / sizeof(Elf64_Sym) > kMaxListedSymbols) {
    return too_large("an ELF file with too many symbols to list");
  }
  FunctionList list;
  (void)scan_symbols(fd, *table, sections, Clock::time_point::max(), list);
  return with_names(fd, sections[table->sh_link], list.sorted(), Clock::time_point::max());
}

Result<std::vector<ElfSymbol>> find_elf_symbols(int fd, std::span<const std::uint64_t> addresses) {
  SymbolBudget unlimited{.table_bytes = std::numeric_limits<std::uint64_t>::max(),
                         .time = std::chrono::hours(1)};
  return find_elf_symbols(fd, addresses, unlimited);
}

}  // namespace profd
