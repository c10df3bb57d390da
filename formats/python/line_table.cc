#include "formats/python/line_table.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "formats/base/cursor.h"

namespace profd::python {
namespace {

constexpr unsigned kFirstOfRanges = 10;
constexpr unsigned kFirstOfLocations = 11;
constexpr std::uint64_t kUnitBytes = 2;

// Collects lines up to the end of the code, and to the limit.
class Lines {
 public:
  explicit Lines(std::uint32_t units) : end_(units == 0 ? PROFD_NO_POSITION : units) {}

  // False: no more are wanted. A line at the place of the last one replaces it, and one that is
  // equal to the last one adds nothing.
  bool add(std::uint64_t position, std::int64_t line) {
    if (position >= end_) return false;
    constexpr std::int64_t kLast = std::numeric_limits<std::uint32_t>::max();
    const auto shown =
        static_cast<std::uint32_t>(line < 1 ? std::int64_t{0} : std::min(line, kLast));
    if (!lines_.empty() && lines_.back().position == position) {
      lines_.back().line = shown;
      return true;
    }
    if (!lines_.empty() && lines_.back().line == shown) return true;
    if (lines_.size() == kMaxInterpretedLines) return false;
    lines_.push_back({.position = static_cast<std::uint32_t>(position), .line = shown});
    return true;
  }

  // The code from here on has no line, where the table ends before the code does.
  void end(std::uint64_t position) {
    if (end_ != PROFD_NO_POSITION && !lines_.empty()) (void)add(position, 0);
  }

  [[nodiscard]] std::vector<InterpretedLine> take() { return std::move(lines_); }

 private:
  std::uint32_t end_;
  std::vector<InterpretedLine> lines_;
};

std::int64_t signed_byte(Cursor& at) { return static_cast<std::int8_t>(at.read<std::uint8_t>()); }

// co_lnotab: from a byte on, its line is that of the byte before and the delta (PyCode_Addr2Line).
void read_deltas(Cursor at, std::int64_t line, Lines& lines) {
  std::uint64_t byte = 0;
  if (!lines.add(0, line)) return;
  while (at.remaining() != 0) {
    byte += at.read<std::uint8_t>();
    line += signed_byte(at);
    if (!at.ok() || !lines.add(byte / kUnitBytes, line)) return;
  }
}

// co_linetable of 3.10: ranges of bytes; -128: the range has no line, and the running one stays.
void read_ranges(Cursor at, std::int64_t line, Lines& lines) {
  constexpr std::int64_t kNoLine = -128;
  std::uint64_t byte = 0;
  while (at.remaining() != 0) {
    const std::uint64_t bytes = at.read<std::uint8_t>();
    const std::int64_t delta = signed_byte(at);
    if (!at.ok()) break;
    if (delta != kNoLine) line += delta;
    const bool is_added = bytes == 0 || lines.add(byte / kUnitBytes, delta == kNoLine ? 0 : line);
    if (!is_added) return;
    byte += bytes;
  }
  lines.end(byte / kUnitBytes);
}

// Six bits a byte, the lowest first. None: more than 32 bits, or the bytes end.
std::optional<std::uint32_t> read_varint(Cursor& at) {
  constexpr unsigned kBitsOfByte = 6;
  constexpr std::uint8_t kMore = 0x40;
  constexpr std::uint8_t kBits = 0x3f;
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 32; shift += kBitsOfByte) {
    const auto byte = at.read<std::uint8_t>();
    if (!at.ok()) return std::nullopt;
    value |= static_cast<std::uint64_t>(byte & kBits) << shift;
    if ((byte & kMore) != 0) continue;
    if (value > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
    return static_cast<std::uint32_t>(value);
  }
  return std::nullopt;
}

// The sign is in the lowest bit.
std::optional<std::int64_t> read_signed_varint(Cursor& at) {
  const auto value = read_varint(at);
  if (!value) return std::nullopt;
  const std::int64_t size = *value >> 1U;
  return (*value & 1U) != 0 ? -size : size;
}

// The kinds of an entry of co_linetable since 3.11. Smaller ones stay in the line before.
enum LocationKind : unsigned {
  kLineDelta0 = 10,
  kLineDelta2 = 12,
  kWithColumns = 14,  // 13: the same without columns
  kWithoutLine = 15,
};

// Reads what follows the first byte of an entry. None: malformed.
std::optional<std::int64_t> read_line_delta(Cursor& at, unsigned kind) {
  if (kind == kWithoutLine) return 0;
  if (kind < kLineDelta0) (void)at.read<std::uint8_t>();
  if (kind >= kLineDelta0 && kind <= kLineDelta2) (void)at.read_bytes(2);
  if (kind <= kLineDelta2) {
    if (!at.ok()) return std::nullopt;
    return kind < kLineDelta0 ? 0 : static_cast<std::int64_t>(kind) - kLineDelta0;
  }
  const auto delta = read_signed_varint(at);
  const bool has_places = kind == kWithColumns;  // the last line, and two columns
  for (int i = 0; has_places && i < 3; ++i) {
    if (!read_varint(at)) return std::nullopt;
  }
  return delta;
}

void read_locations(Cursor at, std::int64_t line, Lines& lines) {
  constexpr std::uint8_t kIsFirst = 0x80;
  constexpr unsigned kKindShift = 3;
  constexpr unsigned kKindMask = 15;
  constexpr unsigned kUnitsMask = 7;
  std::uint64_t unit = 0;
  while (at.remaining() != 0) {
    const auto first = at.read<std::uint8_t>();
    if ((first & kIsFirst) == 0) break;
    const unsigned kind = first >> kKindShift & kKindMask;
    const auto delta = read_line_delta(at, kind);
    if (!delta) break;
    line += *delta;
    if (!lines.add(unit, kind == kWithoutLine ? 0 : line)) return;
    unit += (first & kUnitsMask) + 1U;
  }
  lines.end(unit);
}

}  // namespace

std::vector<InterpretedLine> decode_lines(std::string_view table, unsigned minor,
                                          std::uint32_t first_line, std::uint32_t units) {
  Lines lines(units);
  if (minor < kFirstOfRanges) {
    read_deltas(Cursor(table), first_line, lines);
  } else if (minor < kFirstOfLocations) {
    read_ranges(Cursor(table), first_line, lines);
  } else {
    read_locations(Cursor(table), first_line, lines);
  }
  return lines.take();
}

}  // namespace profd::python
