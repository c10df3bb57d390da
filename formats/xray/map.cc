#include "formats/xray/map.h"

#include <algorithm>
#include <unordered_map>

#include "formats/base/cursor.h"
#include "formats/base/errors.h"
#include "formats/elf/code_file.h"
#include "formats/elf/elf_tables.h"

namespace profd::xray {
namespace {

constexpr std::uint64_t kSledBytes = 32;
constexpr std::uint64_t kIndexBytes = 16;
constexpr std::uint64_t kMaxSectionBytes = std::uint64_t{64} << 20;  // 2 million sleds
constexpr std::size_t kRelocationsAtOnce = 2048;
constexpr std::uint8_t kMaxSledVersion = 2;
constexpr std::size_t kMaxNamesBytes = std::size_t{64} << 20;

struct SledEntry {
  std::uint64_t function = 0;
  std::uint8_t kind = 0;
  bool is_always = false;
};

Result<std::string> read_section(const CodeFile& file, const Elf64_Shdr& section) {
  if (section.sh_size > kMaxSectionBytes) {
    return fail(ErrorCode::kTooLarge, "the instrumentation map is larger than 64 MiB");
  }
  std::string bytes = file.read(section.sh_offset, section.sh_size);
  if (bytes.empty()) return malformed("the instrumentation map reaches beyond the end of the file");
  return bytes;
}

void store(std::string& bytes, std::uint64_t at, std::uint64_t value) {
  for (std::size_t i = 0; i < sizeof value; ++i) bytes[at + i] = static_cast<char>(value >> 8 * i);
}

// Applies a relocation as the loader does for a file that is loaded at its own addresses.
void apply(const Elf64_Rela& relocation, std::uint64_t section, std::string& bytes) {
  const std::uint64_t at = relocation.r_offset - section;
  const bool is_here = relocation.r_offset >= section && bytes.size() >= sizeof(std::uint64_t) &&
                       at <= bytes.size() - sizeof(std::uint64_t);
  if (is_here && ELF64_R_TYPE(relocation.r_info) == R_X86_64_RELATIVE) {
    store(bytes, at, static_cast<std::uint64_t>(relocation.r_addend));
  }
}

void apply_relocations(const CodeFile& file, const Elf64_Shdr& section, std::string& bytes) {
  const Elf64_Shdr* table = file.find_section(".rela.dyn");
  if (table == nullptr) return;
  std::uint64_t left = std::min(table->sh_size, kMaxSectionBytes) / sizeof(Elf64_Rela);
  for (std::uint64_t at = table->sh_offset; left != 0;) {
    const std::size_t count = std::min<std::uint64_t>(left, kRelocationsAtOnce);
    const auto relocations = elf::read_table<Elf64_Rela>(file.fd(), at, count);
    if (!relocations) return;
    for (const Elf64_Rela& relocation : *relocations) apply(relocation, section.sh_addr, bytes);
    left -= count;
    at += count * sizeof(Elf64_Rela);
  }
}

Result<std::vector<SledEntry>> read_sleds(std::string_view bytes, std::uint64_t address) {
  std::vector<SledEntry> sleds;
  sleds.reserve(bytes.size() / kSledBytes);
  for (std::uint64_t at = 0; bytes.size() - at >= kSledBytes; at += kSledBytes) {
    Cursor cursor(bytes.substr(at, kSledBytes));
    cursor.read<std::uint64_t>();
    SledEntry sled;
    sled.function = cursor.read<std::uint64_t>();
    sled.kind = cursor.read<std::uint8_t>();
    sled.is_always = cursor.read<std::uint8_t>() != 0;
    const auto version = cursor.read<std::uint8_t>();
    if (version > kMaxSledVersion || sled.kind >= kSledKinds) {
      return fail(ErrorCode::kUnsupported, "the instrumentation map has sleds of an unknown kind");
    }
    if (version == 2) sled.function += address + at + sizeof(std::uint64_t);
    sleds.push_back(sled);
  }
  return sleds;
}

Function function_of(std::span<const SledEntry> sleds) {
  Function function;
  if (!sleds.empty()) function.address = sleds.front().function;
  for (const SledEntry& sled : sleds) {
    function.sleds = static_cast<std::uint8_t>(function.sleds | 1U << sled.kind);
    function.is_always = function.is_always || sled.is_always;
  }
  return function;
}

// Without an index, consecutive sleds of the same function are one function.
std::vector<Function> functions_by_sleds(std::span<const SledEntry> sleds) {
  std::vector<Function> functions;
  while (!sleds.empty()) {
    const std::uint64_t address = sleds.front().function;
    const auto end = std::ranges::find_if(
        sleds, [&](const SledEntry& sled) { return sled.function != address; });
    const auto count = static_cast<std::size_t>(end - sleds.begin());
    functions.push_back(function_of(sleds.first(count)));
    sleds = sleds.subspan(count);
  }
  return functions;
}

struct SledRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

// The sleds of an index entry (a, b) at the address `field`, in either form. `map` is the address
// of the sleds. None: the entry is invalid.
std::optional<SledRange> range_of(std::uint64_t a, std::uint64_t b, std::uint64_t field,
                                  std::uint64_t map, std::uint64_t sleds) {
  const auto number_of = [&](std::uint64_t address) { return (address - map) / kSledBytes; };
  const auto is_sled = [&](std::uint64_t address) {
    return address >= map && (address - map) % kSledBytes == 0 && number_of(address) <= sleds;
  };
  if (is_sled(a) && is_sled(b) && b >= a) return {{number_of(a), number_of(b) - number_of(a)}};
  const std::uint64_t first = field + a;
  if (!is_sled(first) || b > sleds - number_of(first)) return std::nullopt;
  return {{number_of(first), b}};
}

// None: the index is not one of these sleds.
std::optional<std::vector<Function>> functions_by_index(std::string_view index,
                                                        std::uint64_t index_address,
                                                        std::span<const SledEntry> sleds,
                                                        std::uint64_t map_address) {
  std::vector<Function> functions;
  std::uint64_t left = sleds.size();  // each sled belongs to one function
  Cursor cursor(index);
  while (cursor.remaining() >= kIndexBytes) {
    const std::uint64_t field = index_address + cursor.offset();
    const auto a = cursor.read<std::uint64_t>();
    const auto b = cursor.read<std::uint64_t>();
    const auto range = range_of(a, b, field, map_address, sleds.size());
    if (!range || range->count == 0 || range->count > left) return std::nullopt;
    left -= range->count;
    functions.push_back(function_of(sleds.subspan(range->first, range->count)));
  }
  if (functions.empty()) return std::nullopt;
  return functions;
}

}  // namespace

Result<FunctionMap> read_function_map(int fd) {
  const Result<CodeFile> file = CodeFile::open(fd);
  if (!file) return file.error();
  const Elf64_Shdr* section = file->find_section("xray_instr_map");
  if (section == nullptr) {
    return fail(ErrorCode::kUnsupported,
                "the program is not instrumented: it has no section xray_instr_map",
                "build it with clang -fxray-instrument");
  }
  Result<std::string> bytes = read_section(*file, *section);
  if (!bytes) return bytes.error();
  apply_relocations(*file, *section, *bytes);
  const Result<std::vector<SledEntry>> sleds = read_sleds(*bytes, section->sh_addr);
  if (!sleds) return sleds.error();
  FunctionMap map;
  if (const Elf64_Shdr* index = file->find_section("xray_fn_idx")) {
    Result<std::string> entries = read_section(*file, *index);
    if (!entries) return entries.error();
    apply_relocations(*file, *index, *entries);
    auto functions = functions_by_index(*entries, index->sh_addr, *sleds, section->sh_addr);
    if (functions) map.functions = std::move(*functions);
  }
  if (map.functions.empty()) map.functions = functions_by_sleds(*sleds);
  return map;
}

std::vector<std::string> read_function_names(int fd, const FunctionMap& map, SymbolBudget& budget) {
  std::unordered_multimap<std::uint64_t, std::size_t> ids;
  std::vector<std::uint64_t> addresses;
  for (std::size_t i = 0; i < map.functions.size(); ++i) {
    ids.emplace(map.functions[i].address, i);
    addresses.push_back(map.functions[i].address);
  }
  std::ranges::sort(addresses);
  std::vector<std::string> names(map.functions.size());
  std::size_t names_bytes = 0;
  // One look-up returns at most 1 MiB of names, beginning with the lowest addresses.
  for (std::span<const std::uint64_t> left = addresses;
       !left.empty() && names_bytes < kMaxNamesBytes;) {
    const auto symbols = find_elf_symbols(fd, left, budget);
    if (!symbols || symbols->empty()) break;
    for (const ElfSymbol& symbol : *symbols) {
      const auto [first, last] = ids.equal_range(symbol.address);
      for (auto id = first; id != last; ++id) {
        names[id->second] = symbol.name;
        names_bytes += symbol.name.size();
      }
    }
    const auto next = std::ranges::upper_bound(left, symbols->back().address);
    left = left.subspan(static_cast<std::size_t>(next - left.begin()));
  }
  return names;
}

}  // namespace profd::xray
