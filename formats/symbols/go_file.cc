#include "formats/symbols/go_file.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace profd::go {
namespace {

using namespace std::string_view_literals;

constexpr std::uint64_t kMaxTableBytes = std::uint64_t{128} << 20;
constexpr std::uint64_t kMaxScannedBytes = std::uint64_t{128} << 20;
constexpr std::uint64_t kMaxModuleScan = std::uint64_t{32} << 20;
constexpr std::uint64_t kWord = 8;
// Of struct moduledata, in words.
constexpr std::uint64_t kTextOfModule = 22;
constexpr std::uint64_t kFunctionDataOfModule118 = 38;
constexpr std::uint64_t kFunctionDataOfModule120 = 40;

struct Region {
  std::uint64_t offset = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

Region region_of(const Elf64_Shdr& section) {
  return {section.sh_offset, section.sh_addr, section.sh_size};
}

std::optional<Layout> layout_of(std::string_view magic) {
  if (magic.size() != kWord || magic.substr(1) != "\xff\xff\xff\0\0\1\x08"sv) return std::nullopt;
  switch (static_cast<unsigned char>(magic[0])) {
    case 0xfa:
      return Layout::kGo116;
    case 0xf0:
      return Layout::kGo118;
    case 0xf1:
      return Layout::kGo120;
    default:
      return std::nullopt;
  }
}

// The parts follow each other in the table, and the array of functions fits.
bool has_valid_parts(const Table& table) {
  const std::uint64_t entry_bytes = table.layout == Layout::kGo116 ? 2 * kWord : kWord;
  const std::array parts = {table.names,  table.units,   table.files,
                            table.values, table.entries, table.bytes};
  return std::ranges::is_sorted(parts) && table.functions > 0 &&
         table.functions < (table.bytes - table.entries) / entry_bytes;
}

// The table that starts a region, if one does.
std::optional<Table> read_header(BlockReader& reader, const Region& region) {
  const auto layout = layout_of(reader.bytes(region.offset, kWord));
  if (!layout) return std::nullopt;
  Table table{.layout = *layout,
              .offset = region.offset,
              .address = region.address,
              .bytes = std::min(region.bytes, kMaxTableBytes)};
  const bool has_text_start = *layout != Layout::kGo116;
  Cursor cursor(reader.bytes(region.offset + kWord, has_text_start ? 8 * kWord : 7 * kWord));
  table.functions = cursor.read<std::uint64_t>();
  (void)cursor.read<std::uint64_t>();  // the number of files
  if (has_text_start) table.text_start = cursor.read<std::uint64_t>();
  table.names = cursor.read<std::uint64_t>();
  table.units = cursor.read<std::uint64_t>();
  table.files = cursor.read<std::uint64_t>();
  table.values = cursor.read<std::uint64_t>();
  table.entries = cursor.read<std::uint64_t>();
  if (!cursor.ok() || !has_valid_parts(table)) return std::nullopt;
  return table;
}

// Calls `visit(offset in the region, word)` for each aligned word until it returns true. The words
// are read in parts of 64 KiB.
template <class Visit>
bool scan_words(const LimitedFile& file, const Region& region, const Visit& visit) {
  std::vector<char> chunk(std::size_t{64} << 10);
  for (std::uint64_t at = 0; at < region.bytes; at += chunk.size()) {
    const std::size_t bytes = std::min<std::uint64_t>(chunk.size(), region.bytes - at);
    if (!file.read(region.offset + at, chunk.data(), bytes)) return false;
    Cursor cursor({chunk.data(), bytes - bytes % kWord});
    for (std::uint64_t word = at; cursor.remaining() > 0; word += kWord) {
      if (visit(word, cursor.read<std::uint64_t>())) return true;
    }
  }
  return false;
}

// The data segments of the file, aligned to words: `budget` bytes in all.
std::vector<Region> data_segments(const CodeFile& file, bool writable_only, std::uint64_t budget) {
  std::vector<Region> regions;
  for (const Elf64_Phdr& segment : file.program_headers()) {
    const bool is_data = segment.p_type == PT_LOAD && (segment.p_flags & PF_X) == 0 &&
                         (!writable_only || (segment.p_flags & PF_W) != 0);
    if (!is_data) continue;
    const std::uint64_t skipped = (kWord - segment.p_vaddr % kWord) % kWord;
    if (segment.p_filesz <= skipped) continue;
    const std::uint64_t bytes = std::min(segment.p_filesz - skipped, budget);
    budget -= bytes;
    if (bytes > 0) {
      regions.push_back({segment.p_offset + skipped, segment.p_vaddr + skipped, bytes});
    }
  }
  return regions;
}

std::optional<Table> scan_for_table(const LimitedFile& file, BlockReader& reader) {
  // ?ff ff ff 00 00 01 08: the quantum of code is 1 byte, a pointer has 8.
  constexpr std::uint64_t kMagic = 0x08010000ffffff00;
  for (const Region& region : data_segments(file.elf(), false, kMaxScannedBytes)) {
    std::optional<Table> found;
    scan_words(file, region, [&](std::uint64_t at, std::uint64_t word) {
      if ((word & ~std::uint64_t{0xff}) != kMagic) return false;
      found = read_header(reader, {region.offset + at, region.address + at, region.bytes - at});
      return found.has_value();
    });
    if (found) return found;
  }
  return std::nullopt;
}

std::optional<Table> locate_table(const LimitedFile& file, BlockReader& reader) {
  const CodeFile& elf = file.elf();
  for (const char* name : {".gopclntab", ".data.rel.ro.gopclntab"}) {
    const Elf64_Shdr* section = elf.find_section(name);
    if (section != nullptr) return read_header(reader, region_of(*section));
  }
  const bool may_be_go = elf.sections().empty() || elf.find_section(".go.buildinfo") != nullptr ||
                         elf.find_section(".note.go.buildid") != nullptr;
  return may_be_go ? scan_for_table(file, reader) : std::nullopt;
}

// moduledata starts with the address of the table and that of the names in it.
bool is_module(BlockReader& reader, const Table& table, std::uint64_t offset) {
  return reader.number<std::uint64_t>(offset) == table.address &&
         reader.number<std::uint64_t>(offset + kWord) == table.address + table.names;
}

std::optional<std::uint64_t> find_module(const LimitedFile& file, BlockReader& reader,
                                         const Table& table) {
  const CodeFile& elf = file.elf();
  const Elf64_Shdr* own_section = elf.find_section(".go.module");
  if (own_section != nullptr && is_module(reader, table, own_section->sh_offset)) {
    return own_section->sh_offset;
  }
  std::vector<Region> regions;
  for (const char* name : {".noptrdata", ".data"}) {
    const Elf64_Shdr* section = elf.find_section(name);
    if (section == nullptr) continue;
    regions.push_back(region_of(*section));
    regions.back().bytes = std::min(regions.back().bytes, kMaxModuleScan);
  }
  if (regions.empty()) regions = data_segments(elf, true, kMaxModuleScan);
  for (const Region& region : regions) {
    std::optional<std::uint64_t> found;
    scan_words(file, region, [&](std::uint64_t at, std::uint64_t word) {
      if (word != table.address || !is_module(reader, table, region.offset + at)) return false;
      found = region.offset + at;
      return true;
    });
    if (found) return found;
  }
  return std::nullopt;
}

// What newer versions have in moduledata alone.
void read_module(const LimitedFile& file, BlockReader& reader, Table& table) {
  const auto module = find_module(file, reader, table);
  if (!module) return;
  const std::uint64_t text =
      reader.number<std::uint64_t>(*module + kTextOfModule * kWord).value_or(0);
  if (text != 0) table.text_start = text;
  const std::uint64_t word =
      table.layout == Layout::kGo118 ? kFunctionDataOfModule118 : kFunctionDataOfModule120;
  table.function_data = reader.number<std::uint64_t>(*module + word * kWord).value_or(0);
}

}  // namespace

BlockReader::BlockReader(const LimitedFile& file)
    : file_(file), blocks_(std::make_unique_for_overwrite<Block[]>(kBlocks)) {}

std::string_view BlockReader::rest_of_block(std::uint64_t offset) {
  const std::uint64_t start = offset - offset % kBlockBytes;
  Block& block = blocks_[(start / kBlockBytes) % kBlocks];
  if (block.offset != start) {
    block.offset = start;
    block.size = 0;
    // The last block of a file is short.
    if (file_.limits().take(kBlockBytes)) {
      block.size = elf::read_up_to(file_.elf().fd(), start, block.data.data(), kBlockBytes);
    }
  }
  const std::string_view data(block.data.data(), block.size);
  return data.substr(std::min<std::size_t>(offset - start, data.size()));
}

std::string_view BlockReader::bytes(std::uint64_t offset, std::size_t count) {
  const std::string_view rest = rest_of_block(offset);
  if (rest.size() >= count) return rest.substr(0, count);
  if (count > joined_.size() || rest.empty()) return {};
  const std::size_t first = rest.size();
  std::ranges::copy(rest, joined_.begin());
  const std::string_view next = rest_of_block(offset + first);
  if (next.size() < count - first) return {};
  std::ranges::copy(next.substr(0, count - first), joined_.begin() + static_cast<long>(first));
  return {joined_.data(), count};
}

std::string BlockReader::text(std::uint64_t offset) {
  std::string text;
  while (text.size() < kMaxTextBytes) {
    const std::string_view rest = rest_of_block(offset + text.size());
    const auto end = rest.find('\0');
    text.append(rest.substr(0, end));
    if (rest.empty() || end != rest.npos) break;
  }
  if (text.size() > kMaxTextBytes) text.resize(kMaxTextBytes);
  return text;
}

std::optional<std::uint64_t> offset_of_address(const CodeFile& file, std::uint64_t address) {
  for (const Elf64_Phdr& segment : file.program_headers()) {
    const bool holds = segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
                       address - segment.p_vaddr < segment.p_filesz;
    if (holds) return segment.p_offset + (address - segment.p_vaddr);
  }
  return std::nullopt;
}

std::optional<Table> find_table(const LimitedFile& file, BlockReader& reader) {
  auto table = locate_table(file, reader);
  if (table && table->layout != Layout::kGo116) read_module(file, reader, *table);
  return table;
}

}  // namespace profd::go
