// Readers of two encodings of DWARF: LEB128 numbers (DWARF 5, 7.6) and the encoded pointers of
// .eh_frame (LSB Core 5.0, 10.5). On malformed input the cursor fails.

#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "formats/base/cursor.h"

namespace profd::dwarf {

// Pointer encodings, DW_EH_PE_*: a format in the low four bits, an application in the next three.
enum PointerEncoding : std::uint8_t {
  kPointerAbsolute = 0x00,
  kPointerUleb = 0x01,
  kPointerU16 = 0x02,
  kPointerU32 = 0x03,
  kPointerU64 = 0x04,
  kPointerSleb = 0x09,
  kPointerS16 = 0x0a,
  kPointerS32 = 0x0b,
  kPointerS64 = 0x0c,
  kPointerFormat = 0x0f,
  kPointerPcRelative = 0x10,
  kPointerApplication = 0x70,
  kPointerIndirect = 0x80,
  kPointerOmitted = 0xff,
};

// A read that no cursor can satisfy.
inline void fail_cursor(Cursor& cursor) {
  cursor.read_bytes(std::numeric_limits<std::size_t>::max());
}

constexpr unsigned kMaxLebShift = 140;  // the limit for padding, which may follow the 64th bit

// Bits beyond the 64th are dropped, as in every other reader.
inline std::uint64_t read_leb(Cursor& cursor, bool is_signed) {
  std::uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    const auto byte = cursor.read<std::uint8_t>();
    if (shift < 64) value |= std::uint64_t{byte & 0x7fU} << shift;
    if ((byte & 0x80) == 0) {
      const bool is_negative = is_signed && (byte & 0x40) != 0 && shift + 7 < 64;
      return is_negative ? value | ~std::uint64_t{0} << (shift + 7) : value;
    }
    if (shift > kMaxLebShift) fail_cursor(cursor);
  }
}

inline std::uint64_t read_uleb(Cursor& cursor) { return read_leb(cursor, false); }
inline std::int64_t read_sleb(Cursor& cursor) {
  return static_cast<std::int64_t>(read_leb(cursor, true));
}

template <class Signed, class Unsigned>
std::uint64_t read_signed(Cursor& cursor) {
  return static_cast<std::uint64_t>(
      std::int64_t{static_cast<Signed>(cursor.template read<Unsigned>())});
}

// Without the application of the encoding. None for an unknown format.
inline std::optional<std::uint64_t> read_pointer_value(Cursor& cursor, std::uint8_t encoding) {
  switch (encoding & kPointerFormat) {
    case kPointerAbsolute:
    case kPointerU64:
    case kPointerS64:
      return cursor.read<std::uint64_t>();
    case kPointerUleb:
      return read_uleb(cursor);
    case kPointerSleb:
      return static_cast<std::uint64_t>(read_sleb(cursor));
    case kPointerU16:
      return cursor.read<std::uint16_t>();
    case kPointerU32:
      return cursor.read<std::uint32_t>();
    case kPointerS16:
      return read_signed<std::int16_t, std::uint16_t>(cursor);
    case kPointerS32:
      return read_signed<std::int32_t, std::uint32_t>(cursor);
    default:
      return std::nullopt;
  }
}

// `vaddr` is the virtual address of the cursor's first byte. None for a pointer that is neither
// absolute nor pc-relative, which no pointer to code is.
inline std::optional<std::uint64_t> read_pointer(Cursor& cursor, std::uint8_t encoding,
                                                 std::uint64_t vaddr) {
  const std::uint64_t field = vaddr + cursor.offset();
  const auto value = read_pointer_value(cursor, encoding);
  if (!value || !cursor.ok() || (encoding & kPointerIndirect) != 0) return std::nullopt;
  switch (encoding & kPointerApplication) {
    case 0:
      return value;
    case kPointerPcRelative:
      return *value + field;
    default:
      return std::nullopt;
  }
}

}  // namespace profd::dwarf
