#include "formats/symbols/symbol_table.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <limits>
#include <utility>

#include "formats/symbols/folding.h"

namespace profd {
namespace {

constexpr std::uint64_t kMaxSymbols = 4'000'000;
constexpr std::size_t kMaxAliases = 8;
// Of names that are compared, each of which takes some 50 ns a byte to demangle.
constexpr std::size_t kMaxJudgedBytes = std::size_t{4} << 20;
// Symbols of a real table hardly nest, so that most addresses are in one or two.
constexpr std::uint64_t kMaxMatches = 16'000'000;

struct Symbol {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint32_t name = 0;  // offset into the string table; 0: there is no symbol
  SymbolBinding binding = SymbolBinding::kLocal;
  bool has_size = false;

  [[nodiscard]] bool exists() const { return name != 0; }
  [[nodiscard]] bool has_range_of(const Symbol& other) const {
    return start == other.start && end == other.end;
  }
};

// What is known of one address.
struct Match {
  Symbol sized;
  std::vector<std::pair<std::uint32_t, SymbolBinding>> aliases;  // names of equal ranges
  Symbol unsized;
  std::uint64_t nearest = 0;  // the highest start, up to the address, of a symbol of any kind

  void offer_sized(const Symbol& symbol) {
    if (sized.exists() && symbol.has_range_of(sized)) {
      const bool is_better = symbol.binding < sized.binding;
      const Symbol& other = is_better ? sized : symbol;
      if (aliases.size() < kMaxAliases) aliases.emplace_back(other.name, other.binding);
      if (is_better) sized = symbol;
      return;
    }
    const bool is_inner =
        symbol.start != sized.start ? symbol.start > sized.start : symbol.end < sized.end;
    if (sized.exists() && !is_inner) return;
    sized = symbol;
    aliases.clear();
  }

  void offer_unsized(const Symbol& symbol) {
    const bool is_better = symbol.start != unsized.start ? symbol.start > unsized.start
                                                         : symbol.binding < unsized.binding;
    if (!unsized.exists() || is_better) unsized = symbol;
  }

  // The range of a symbol without a size ends at the next symbol.
  [[nodiscard]] Symbol best(std::uint64_t address) const {
    if (sized.exists()) return sized;
    const bool holds = unsized.exists() && unsized.start == nearest && address < unsized.end;
    return holds ? unsized : Symbol{};
  }
};

// Finds the matches of all addresses in one pass over the symbols, in any order of these.
class Matches {
 public:
  Matches(std::span<const std::uint64_t> addresses, SymbolTableKind kind)
      : addresses_(addresses), kind_(kind), matches_(addresses.size()) {}

  // `section_end`: of the section of the symbol. False: the symbols overlap too much.
  bool add(const Elf64_Sym& symbol, std::uint64_t section_end) {
    const auto first = std::ranges::lower_bound(addresses_, symbol.st_value);
    const auto index = static_cast<std::size_t>(first - addresses_.begin());
    if (index == addresses_.size()) return true;
    matches_[index].nearest = std::max(matches_[index].nearest, symbol.st_value);
    const unsigned type = ELF64_ST_TYPE(symbol.st_info);
    const bool is_code = type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE;
    if (!is_code || symbol.st_name == 0) return true;
    const Symbol found = range_of(symbol, section_end);
    if (!found.has_size && kind_ == SymbolTableKind::kSymtab) {
      matches_[index].offer_unsized(found);
      return true;
    }
    for (std::size_t i = index; i < addresses_.size() && addresses_[i] < found.end; ++i) {
      matches_[i].offer_sized(found);
      ++count_;
    }
    return count_ < kMaxMatches;
  }

  // Call once, after the last add(). Where the table was cut, without symbols that have no size.
  std::vector<Match> take(bool is_cut) {
    if (is_cut) {
      for (Match& match : matches_) match.unsized = {};
    }
    for (std::size_t i = 1; i < matches_.size(); ++i) {
      const Match& before = matches_[i - 1];
      matches_[i].nearest = std::max(matches_[i].nearest, before.nearest);
      if (before.unsized.exists()) matches_[i].offer_unsized(before.unsized);
    }
    return std::move(matches_);
  }

 private:
  [[nodiscard]] Symbol range_of(const Elf64_Sym& symbol, std::uint64_t section_end) const {
    Symbol found{.start = symbol.st_value,
                 .name = symbol.st_name,
                 .binding = binding_of(symbol.st_info),
                 .has_size = symbol.st_size != 0};
    const std::uint64_t without_size = kind_ == SymbolTableKind::kSymtab ? kMaxUnsizedBytes : 1;
    const std::uint64_t bytes = found.has_size ? symbol.st_size : without_size;
    found.end = found.start + std::min(bytes, section_end - found.start);
    return found;
  }

  static SymbolBinding binding_of(unsigned char info) {
    const unsigned binding = ELF64_ST_BIND(info);
    if (binding == STB_GLOBAL || binding == STB_GNU_UNIQUE) return SymbolBinding::kGlobal;
    return binding == STB_WEAK ? SymbolBinding::kWeak : SymbolBinding::kLocal;
  }

  std::span<const std::uint64_t> addresses_;
  SymbolTableKind kind_;
  std::vector<Match> matches_;
  std::uint64_t count_ = 0;
};

struct Table {
  SymbolTableKind kind{};
  Elf64_Shdr symbols{};
  Elf64_Shdr strings{};
};

std::optional<Table> find_table(const CodeFile& file, SymbolTableKind kind) {
  const Elf64_Word type = kind == SymbolTableKind::kSymtab ? SHT_SYMTAB : SHT_DYNSYM;
  const auto& sections = file.sections();
  const auto found = std::ranges::find(sections, type, &Elf64_Shdr::sh_type);
  const bool is_usable = found != sections.end() && found->sh_entsize == sizeof(Elf64_Sym) &&
                         found->sh_size > sizeof(Elf64_Sym) && found->sh_link < sections.size() &&
                         sections[found->sh_link].sh_type == SHT_STRTAB;
  if (!is_usable) return std::nullopt;
  return Table{kind, *found, sections[found->sh_link]};
}

// The executable section of the symbol. Null: it is in none.
const Elf64_Shdr* code_section_of(const std::vector<Elf64_Shdr>& sections,
                                  const Elf64_Sym& symbol) {
  if (symbol.st_shndx >= sections.size()) return nullptr;
  const Elf64_Shdr& section = sections[symbol.st_shndx];
  const bool is_code = (section.sh_flags & SHF_EXECINSTR) != 0;
  const bool holds =
      symbol.st_value >= section.sh_addr && symbol.st_value - section.sh_addr < section.sh_size;
  const bool is_sane =
      section.sh_size <= std::numeric_limits<std::uint64_t>::max() - section.sh_addr;
  return is_code && holds && is_sane ? &section : nullptr;
}

// Whether the whole table was read.
bool scan_table(const LimitedFile& file, const Table& table, Matches& matches) {
  std::array<Elf64_Sym, 2730> chunk;
  const std::uint64_t symbols = table.symbols.sh_size / sizeof(Elf64_Sym);
  std::uint64_t left = std::min(symbols, kMaxSymbols);
  std::uint64_t offset = table.symbols.sh_offset;
  const auto& sections = file.elf().sections();
  while (left > 0) {
    const std::size_t count = std::min<std::uint64_t>(left, chunk.size());
    if (!file.read(offset, chunk.data(), count * sizeof(Elf64_Sym))) return false;
    for (const Elf64_Sym& symbol : std::span(chunk).first(count)) {
      const Elf64_Shdr* section = code_section_of(sections, symbol);
      if (section == nullptr) continue;
      if (!matches.add(symbol, section->sh_addr + section->sh_size)) return false;
    }
    left -= count;
    offset += count * sizeof(Elf64_Sym);
  }
  return symbols <= kMaxSymbols;
}

// Reads the names of the symbols that were found.
class Names {
 public:
  Names(const LimitedFile& file, const Table& table) : file_(file), table_(table) {}

  std::optional<SymbolHit> hit_of(const Match& match, const Symbol& symbol) {
    std::string name = read_symbol_name(file_, table_.strings, symbol.name);
    if (name.empty()) return std::nullopt;
    const bool folded = symbol.has_range_of(match.sized) && has_folded(match, name);
    return SymbolHit{symbol.start, symbol.end, symbol.has_size, std::move(name), folded};
  }

 private:
  bool has_folded(const Match& match, const std::string& name) {
    if (match.aliases.empty()) return false;
    std::vector<NamedSymbol> names{{name, match.sized.binding}};
    for (const auto& [offset, binding] : match.aliases) {
      names.push_back({read_symbol_name(file_, table_.strings, offset), binding});
      judged_bytes_ += names.back().name.size();
    }
    if (judged_bytes_ > kMaxJudgedBytes) return false;
    return are_folded(names, table_.kind == SymbolTableKind::kDynsym);
  }

  LimitedFile file_;
  Table table_;
  std::size_t judged_bytes_ = 0;
};

}  // namespace

std::string read_symbol_name(const LimitedFile& file, const Elf64_Shdr& strings,
                             std::uint32_t offset) {
  if (offset >= strings.sh_size) return {};
  std::array<char, kMaxSymbolNameBytes> text;
  // Most names are short.
  for (const std::size_t room : {std::size_t{256}, text.size()}) {
    const std::size_t bytes = std::min<std::uint64_t>(room, strings.sh_size - offset);
    if (!file.read(strings.sh_offset + offset, text.data(), bytes)) return {};
    const std::size_t length = ::strnlen(text.data(), bytes);
    if (length < bytes || bytes < room || room == text.size()) return {text.data(), length};
  }
  return {};
}

std::optional<SymbolHits> find_symbols(const LimitedFile& file, SymbolTableKind kind,
                                       std::span<const std::uint64_t> addresses) {
  const std::optional<Table> table = find_table(file.elf(), kind);
  if (!table) return std::nullopt;
  Matches matches(addresses, kind);
  SymbolHits answer{.hits = std::vector<std::optional<SymbolHit>>(addresses.size()),
                    .is_cut = !scan_table(file, *table, matches)};
  if (file.limits().are_spent()) return answer;
  auto& hits = answer.hits;
  const std::vector<Match> found = matches.take(answer.is_cut);
  Names names(file, *table);
  Symbol before;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Symbol symbol = found[i].best(addresses[i]);
    const bool is_same = symbol.has_range_of(before) && symbol.name == before.name;
    before = symbol;
    if (!symbol.exists()) continue;
    hits[i] = is_same ? hits[i - 1] : names.hit_of(found[i], symbol);
  }
  return answer;
}

}  // namespace profd
