#include "formats/elf_file.h"

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

#include "formats/cursor.h"

namespace profd {
namespace {

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{4} << 30;
constexpr std::uint64_t kMaxSymbols = 4'000'000;
constexpr std::size_t kMaxNameBytes = 4096;
constexpr std::size_t kMaxAllNamesBytes = std::size_t{16} << 20;
constexpr std::uint64_t kMaxNoteBytes = 64 * 1024;
constexpr std::size_t kMaxBuildIdBytes = 64;
constexpr std::size_t kMaxSegments = 1024;

// Read by value: whatever the file becomes afterwards, each number is checked as it is used. False
// on a short read.
bool read_at(int fd, std::uint64_t offset, void* to, std::size_t bytes) {
  auto* next = static_cast<char*>(to);
  while (bytes > 0) {
    if (offset > kMaxFileBytes) return false;
    const ssize_t got = ::pread(fd, next, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    next += got;
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

// `count` must be bounded by the caller.
template <class T>
std::optional<std::vector<T>> read_table(int fd, std::uint64_t offset, std::size_t count) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> table(count);
  if (!read_at(fd, offset, table.data(), count * sizeof(T))) return std::nullopt;
  return table;
}

Error malformed(const std::string& what) { return fail(ErrorCode::kMalformed, what); }

Result<void> check_ident(const Elf64_Ehdr& header) {
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return malformed("not an ELF file");
  if (header.e_ident[EI_CLASS] != ELFCLASS64) {
    return fail(ErrorCode::kUnsupported, "a 32-bit ELF file; only 64-bit ones are read");
  }
  if (header.e_ident[EI_DATA] != ELFDATA2LSB) {
    return fail(ErrorCode::kUnsupported, "a big-endian ELF file; only little-endian ones are read");
  }
  return {};
}

Result<void> check_file_size(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return fail_errno("could not stat an ELF file");
  if (static_cast<std::uint64_t>(status.st_size) > kMaxFileBytes) {
    return fail(ErrorCode::kTooLarge, "an ELF file larger than 4 GiB");
  }
  return {};
}

Result<Elf64_Ehdr> read_header(int fd) {
  if (const Result<void> size = check_file_size(fd); !size) return size.error();
  Elf64_Ehdr header{};
  if (!read_at(fd, 0, header.e_ident, EI_NIDENT)) return malformed("not an ELF file");
  if (const Result<void> ident = check_ident(header); !ident) return ident.error();
  if (!read_at(fd, 0, &header, sizeof header)) return malformed("an ELF file cut in its header");
  return header;
}

Result<std::vector<Elf64_Phdr>> read_program_headers(int fd, const Elf64_Ehdr& header) {
  if (header.e_phnum == 0) return std::vector<Elf64_Phdr>{};
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum > kMaxSegments) {
    return malformed("an ELF file with absurd program headers");
  }
  auto table = read_table<Elf64_Phdr>(fd, header.e_phoff, header.e_phnum);
  if (!table) return malformed("an ELF file cut in its program headers");
  return std::move(*table);
}

// None for a file without section headers, and for one whose are damaged. More than 65,279
// (numbered otherwise) have only object files.
std::vector<Elf64_Shdr> read_section_headers(int fd, const Elf64_Ehdr& header) {
  if (header.e_shnum == 0 || header.e_shentsize != sizeof(Elf64_Shdr)) return {};
  return read_table<Elf64_Shdr>(fd, header.e_shoff, header.e_shnum)
      .value_or(std::vector<Elf64_Shdr>{});
}

std::string build_id_in_notes(std::string_view notes, std::size_t alignment) {
  Cursor cursor(notes);
  while (cursor.ok() && cursor.remaining() > 0) {
    const auto name_bytes = cursor.read<std::uint32_t>();
    const auto value_bytes = cursor.read<std::uint32_t>();
    const auto type = cursor.read<std::uint32_t>();
    const std::string_view name = cursor.read_bytes(name_bytes);
    cursor.align(alignment);
    const std::string_view value = cursor.read_bytes(value_bytes);
    cursor.align(alignment);
    const bool build_id = type == NT_GNU_BUILD_ID && name == std::string_view("GNU", 4);
    if (cursor.ok() && build_id && value.size() <= kMaxBuildIdBytes) return std::string(value);
  }
  return {};
}

std::string read_build_id(int fd, std::uint64_t offset, std::uint64_t bytes, std::uint64_t align) {
  const auto notes = read_table<char>(fd, offset, std::min(bytes, kMaxNoteBytes));
  if (!notes) return {};
  return build_id_in_notes({notes->data(), notes->size()}, align == 8 ? 8 : 4);
}

std::string find_build_id(int fd, const Elf64_Ehdr& header,
                          const std::vector<Elf64_Phdr>& segments) {
  std::string id;
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_NOTE)
      id = read_build_id(fd, segment.p_offset, segment.p_filesz, segment.p_align);
    if (!id.empty()) return id;
  }
  for (const Elf64_Shdr& section : read_section_headers(fd, header)) {
    if (section.sh_type == SHT_NOTE)
      id = read_build_id(fd, section.sh_offset, section.sh_size, section.sh_addralign);
    if (!id.empty()) return id;
  }
  return id;
}

}  // namespace

Result<ElfSummary> read_elf_summary(int fd) {
  const Result<Elf64_Ehdr> header = read_header(fd);
  if (!header) return header.error();
  if (header->e_type != ET_EXEC && header->e_type != ET_DYN) {
    return fail(ErrorCode::kUnsupported, "an ELF file that is no program and no library");
  }
  const Result<std::vector<Elf64_Phdr>> segments = read_program_headers(fd, *header);
  if (!segments) return segments.error();
  ElfSummary summary;
  summary.type = header->e_type;
  summary.machine = header->e_machine;
  summary.entry = header->e_entry;
  for (const Elf64_Phdr& p : *segments) {
    if (p.p_type != PT_LOAD) continue;
    summary.segments.push_back(
        {p.p_offset, p.p_vaddr, p.p_filesz, p.p_memsz, p.p_align, p.p_flags});
  }
  summary.build_id = find_build_id(fd, *header, *segments);
  return summary;
}

Result<std::uint64_t> vaddr_of_offset(const ElfSummary& elf, std::uint64_t offset) {
  const auto holds = [&](const ElfSegment& s) {
    return offset >= s.offset && offset - s.offset < s.file_bytes;
  };
  const auto segment = std::ranges::find_if(elf.segments, holds);
  if (segment == elf.segments.end())
    return fail(ErrorCode::kNotFound, "no segment of the file has that offset");
  return segment->vaddr + (offset - segment->offset);
}

namespace {

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
    const auto repeated = std::ranges::unique(addresses_);
    addresses_.erase(repeated.begin(), repeated.end());
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
    const auto repeated = std::ranges::unique(found, {}, &Function::start);
    found.erase(repeated.begin(), repeated.end());
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
    if (!read_at(fd, offset, chunk.data(), count * sizeof(Elf64_Sym))) return;
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
  if (!read_at(fd, strings.sh_offset + offset, text.data(), bytes)) return {};
  return std::string(text.data(), ::strnlen(text.data(), bytes));
}

const Elf64_Shdr* symbol_table_of(const std::vector<Elf64_Shdr>& sections) {
  for (const std::uint32_t type : {SHT_SYMTAB, SHT_DYNSYM}) {
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
  const Result<Elf64_Ehdr> header = read_header(fd);
  if (!header) return header.error();
  std::vector<ElfSymbol> symbols;
  const std::vector<Elf64_Shdr> sections = read_section_headers(fd, *header);
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
