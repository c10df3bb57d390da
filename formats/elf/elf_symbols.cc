#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
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

// The limit for the bytes of a table, by the disk space of the file: a file system that compresses
// may store a table in fewer bytes, and a small file without a block of its own; a hole is no
// table.
constexpr std::uint64_t kMaxCompression = 16;
constexpr std::uint64_t kUnallocatedBytes = std::uint64_t{1} << 20;

using Clock = std::chrono::steady_clock;

// A function of a symbol table, without its name.
struct Function {
  std::uint64_t start = 0;
  std::uint64_t bytes = 0;        // 0: not given
  std::uint64_t section_end = 0;  // of the section that it lies in
  std::uint32_t name = 0;         // offset into the string table
  std::uint8_t rank = 0;          // of its binding: global, weak, local
  bool known = false;

  [[nodiscard]] bool covers(std::uint64_t address) const {
    return known && address >= start && address - start < bytes;
  }
};

// Whether to prefer `a`: for the nearer start, then for a size, then for the binding. Of equal
// functions the first in the table stays, so that the same file always gives the same names.
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

// Keeps the preferred one of several functions with the same start.
void sort_by_start(std::vector<Function>& functions) {
  std::ranges::stable_sort(functions, [](const Function& a, const Function& b) {
    return a.start != b.start ? a.start < b.start : nearer(a, b);
  });
  const auto same = [](const Function& a, const Function& b) { return a.start == b.start; };
  functions.erase(std::unique(functions.begin(), functions.end(), same), functions.end());
}

// Finds the functions at few addresses in one pass over many symbols, in (symbols + addresses) *
// log(addresses) time for any table: add() puts a function only into the slot of the first address
// at or above its start, and hits() carries the functions on to the slots of higher addresses.
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

  // By address, each once.
  [[nodiscard]] std::vector<Function> hits() const {
    std::vector<Function> found;
    Slot carried;
    for (std::size_t i = 0; i < addresses_.size(); ++i) {
      carried.carry(slots_[i], addresses_[i]);
      const Function hit = carried.hit(addresses_[i]);
      if (hit.known) found.push_back(hit);
    }
    sort_by_start(found);
    return found;
  }

 private:
  // Of the functions that start at or below an address:
  struct Slot {
    Function inner;    // the nearest that covers it
    Function widest;   // the one with the highest end; it covers `inner` where functions nest
    Function closest;  // the nearest, even if it does not cover the address

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
      const bool has_no_size = closest.known && closest.bytes == 0;
      return has_no_size && address < closest.section_end ? closest : Function{};
    }
  };

  std::vector<std::uint64_t> addresses_;
  std::vector<Slot> slots_;
};

std::uint8_t rank_of(unsigned char info) {
  const unsigned binding = ELF64_ST_BIND(info);
  if (binding == STB_GLOBAL || binding == STB_GNU_UNIQUE) return 0;
  return binding == STB_WEAK ? 1 : 2;
}

std::optional<Function> function_of(const Elf64_Sym& symbol,
                                    const std::vector<Elf64_Shdr>& sections) {
  const unsigned type = ELF64_ST_TYPE(symbol.st_info);
  if (type != STT_FUNC && type != STT_GNU_IFUNC) return std::nullopt;
  if (symbol.st_shndx == SHN_UNDEF || symbol.st_name == 0) return std::nullopt;
  // A size beyond the end of the address space is ignored.
  const bool sane = symbol.st_size <= std::numeric_limits<std::uint64_t>::max() - symbol.st_value;
  Function function{symbol.st_value, sane ? symbol.st_size : 0, 0,
                    symbol.st_name,  rank_of(symbol.st_info),   true};
  if (symbol.st_shndx < sections.size()) {
    const Elf64_Shdr& section = sections[symbol.st_shndx];
    function.section_end = section.sh_addr + section.sh_size;
  }
  return function;
}

// The symbols of a file: .symtab, or .dynsym where only that exists.
struct SymbolTable {
  std::vector<Elf64_Shdr> sections;  // all of the file
  Elf64_Shdr symbols{};              // all 0: the file has none
  Elf64_Shdr strings{};

  [[nodiscard]] bool empty() const { return symbols.sh_size == 0; }
  [[nodiscard]] std::uint64_t bytes() const {
    return std::min(symbols.sh_size, kMaxSymbols * sizeof(Elf64_Sym));
  }
};

Result<SymbolTable> read_symbol_table(int fd) {
  Result<elf::Headers> headers = elf::read_headers(fd);
  if (!headers) return headers.error();
  SymbolTable table{.sections = std::move(headers->sections)};
  for (const Elf64_Word type : {Elf64_Word{SHT_SYMTAB}, Elf64_Word{SHT_DYNSYM}}) {
    const auto found = std::ranges::find(table.sections, type, &Elf64_Shdr::sh_type);
    const bool usable = found != table.sections.end() && found->sh_entsize == sizeof(Elf64_Sym) &&
                        found->sh_size > sizeof(Elf64_Sym) &&
                        found->sh_link < table.sections.size() &&
                        table.sections[found->sh_link].sh_type == SHT_STRTAB;
    if (!usable) continue;
    table.symbols = *found;
    table.strings = table.sections[found->sh_link];
    break;
  }
  return table;
}

// Calls `add` for each function. Reads 64 KiB at a time: the table of a browser has over 100 MB.
// False: `until` was reached first.
bool scan_symbols(int fd, const SymbolTable& table, Clock::time_point until,
                  const std::function<void(const Function&)>& add) {
  std::array<Elf64_Sym, 2730> chunk;
  std::uint64_t left = table.bytes() / sizeof(Elf64_Sym);
  std::uint64_t offset = table.symbols.sh_offset;
  while (left > 0) {
    if (Clock::now() >= until) return false;
    const std::size_t count = std::min<std::uint64_t>(left, chunk.size());
    if (!elf::read_at(fd, offset, chunk.data(), count * sizeof(Elf64_Sym))) return true;
    for (const Elf64_Sym& symbol : std::span(chunk).first(count)) {
      if (const auto function = function_of(symbol, table.sections)) add(*function);
    }
    left -= count;
    offset += count * sizeof(Elf64_Sym);
  }
  return true;
}

// Cut at kMaxNameBytes; empty where the string table has no text.
std::string read_name(int fd, const Elf64_Shdr& strings, std::uint32_t offset) {
  if (offset >= strings.sh_size) return {};
  std::array<char, kMaxNameBytes> text;
  const std::size_t bytes = std::min<std::uint64_t>(text.size(), strings.sh_size - offset);
  if (!elf::read_at(fd, strings.sh_offset + offset, text.data(), bytes)) return {};
  return std::string(text.data(), ::strnlen(text.data(), bytes));
}

// Up to the function whose name exceeds kMaxAllNamesBytes.
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

Error too_large(const char* what) { return fail(ErrorCode::kTooLarge, what); }

Result<std::vector<ElfSymbol>> find_symbols(int fd, const struct stat& file,
                                            std::span<const std::uint64_t> addresses,
                                            std::uint64_t& bytes_left, Clock::time_point until) {
  const Result<SymbolTable> table = read_symbol_table(fd);
  if (!table) return table.error();
  if (table->empty()) return std::vector<ElfSymbol>{};
  const std::uint64_t bytes = table->bytes();
  const std::uint64_t disk_bytes = static_cast<std::uint64_t>(file.st_blocks) * 512;
  if (bytes > disk_bytes * kMaxCompression + kUnallocatedBytes) {
    return too_large("the symbol table of an ELF file is a hole");
  }
  if (bytes > bytes_left) return too_large("the limit for symbol tables is reached");
  bytes_left -= bytes;
  Lookup lookup(addresses);
  if (!scan_symbols(fd, *table, until, [&](const Function& f) { lookup.add(f); })) {
    return too_large("the time limit for symbol tables is reached");
  }
  return with_names(fd, table->strings, lookup.hits(), until);
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
  const Result<SymbolTable> table = read_symbol_table(fd);
  if (!table) return table.error();
  if (table->empty()) return std::vector<ElfSymbol>{};
  if (table->symbols.sh_size / sizeof(Elf64_Sym) > kMaxListedSymbols) {
    return too_large("an ELF file has too many symbols to list");
  }
  constexpr auto kForever = Clock::time_point::max();
  std::vector<Function> functions;
  (void)scan_symbols(fd, *table, kForever, [&](const Function& f) { functions.push_back(f); });
  sort_by_start(functions);
  return with_names(fd, table->strings, functions, kForever);
}

}  // namespace profd
