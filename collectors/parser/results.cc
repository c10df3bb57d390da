#include "collectors/parser/results.h"

#include "collectors/sandbox/encoder.h"
#include "formats/base/cursor.h"

namespace profd::parser {
namespace {

constexpr std::size_t kMaxSegments = 1024;
constexpr std::size_t kMaxStringBytes = 4096;

Error malformed() { return fail(ErrorCode::kMalformed, "the parser's answer has another form"); }

std::string read_text(Cursor& cursor) {
  const auto bytes = cursor.read<std::uint32_t>();
  return std::string(cursor.read_bytes(bytes <= kMaxStringBytes ? bytes : SIZE_MAX));
}

bool at_end(const Cursor& cursor) { return cursor.ok() && cursor.remaining() == 0; }

}  // namespace

std::string encode(const UnwindSource& source) {
  return Encoder()
      .add(source.build_id)
      .add(source.debug_link)
      .add(source.debug_link_crc)
      .add(static_cast<std::uint8_t>(source.has_eh_frame))
      .add(static_cast<std::uint8_t>(source.has_debug_frame))
      .add(source.digest[0])
      .add(source.digest[1])
      .take();
}

Result<UnwindSource> decode_unwind_source(std::string_view bytes) {
  Cursor cursor(bytes);
  UnwindSource source;
  source.build_id = read_text(cursor);
  source.debug_link = read_text(cursor);
  source.debug_link_crc = cursor.read<std::uint32_t>();
  source.has_eh_frame = cursor.read<std::uint8_t>() != 0;
  source.has_debug_frame = cursor.read<std::uint8_t>() != 0;
  for (std::uint64_t& word : source.digest) word = cursor.read<std::uint64_t>();
  if (!at_end(cursor)) return malformed();
  return source;
}

std::string encode(const ElfSummary& summary) {
  Encoder writer;
  writer.add(summary.type).add(summary.machine).add(summary.entry).add(summary.build_id);
  writer.add(static_cast<std::uint32_t>(summary.segments.size()));
  for (const ElfSegment& segment : summary.segments) {
    writer.add(segment.offset)
        .add(segment.vaddr)
        .add(segment.file_bytes)
        .add(segment.memory_bytes)
        .add(segment.align)
        .add(segment.flags);
  }
  return writer.take();
}

Result<ElfSummary> decode_elf_summary(std::string_view bytes) {
  Cursor cursor(bytes);
  ElfSummary summary;
  summary.type = cursor.read<std::uint16_t>();
  summary.machine = cursor.read<std::uint16_t>();
  summary.entry = cursor.read<std::uint64_t>();
  summary.build_id = read_text(cursor);
  const auto count = cursor.read<std::uint32_t>();
  if (count > kMaxSegments) return malformed();
  for (std::uint32_t i = 0; i < count && cursor.ok(); ++i) {
    ElfSegment segment;
    segment.offset = cursor.read<std::uint64_t>();
    segment.vaddr = cursor.read<std::uint64_t>();
    segment.file_bytes = cursor.read<std::uint64_t>();
    segment.memory_bytes = cursor.read<std::uint64_t>();
    segment.align = cursor.read<std::uint64_t>();
    segment.flags = cursor.read<std::uint32_t>();
    summary.segments.push_back(segment);
  }
  if (!at_end(cursor)) return malformed();
  return summary;
}

std::string encode(const FoundSymbols& found) {
  Encoder writer;
  writer.add(found.table_bytes_left);
  for (const ElfSymbol& symbol : found.symbols) {
    writer.add(symbol.address).add(symbol.bytes).add(symbol.name);
  }
  return writer.take();
}

Result<FoundSymbols> decode_found_symbols(std::string_view bytes) {
  Cursor cursor(bytes);
  FoundSymbols found;
  found.table_bytes_left = cursor.read<std::uint64_t>();
  std::vector<ElfSymbol>& symbols = found.symbols;
  while (cursor.ok() && cursor.remaining() > 0) {
    ElfSymbol symbol;
    symbol.address = cursor.read<std::uint64_t>();
    symbol.bytes = cursor.read<std::uint64_t>();
    symbol.name = read_text(cursor);
    // Sorted, each once: what a reader of the list relies on.
    if (!symbols.empty() && symbol.address <= symbols.back().address) return malformed();
    symbols.push_back(std::move(symbol));
  }
  if (!at_end(cursor)) return malformed();
  return found;
}

}  // namespace profd::parser
