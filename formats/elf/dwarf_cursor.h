// DWARF's own encodings, read through a Cursor: LEB128 numbers and the encoded pointers of
// .eh_frame (LSB Core 5.0, 10.5; DWARF 5, 7.6). Failure is the cursor's.

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

inline void give_up(Cursor& cursor) { cursor.read_bytes(std::numeric_limits<std::size_t>::max()); }

// Bits beyond the 64th are dropped, as every consumer does.
inline std::uint64_t read_uleb(Cursor& cursor) {
  std::uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    const auto byte = cursor.read<std::uint8_t>();
    if (shift < 64) value |= std::uint64_t{byte & 0x7fU} << shift;
    if ((byte & 0x80) == 0) return value;
    if (shift > 140) give_up(cursor);  // nobody pads so far
  }
}

inline std::int64_t read_sleb(Cursor& cursor) {
  std::uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    const auto byte = cursor.read<std::uint8_t>();
    if (shift < 64) value |= std::uint64_t{byte & 0x7fU} << shift;
    if ((byte & 0x80) == 0) {
      if ((byte & 0x40) != 0 && shift + 7 < 64) value |= ~std::uint64_t{0} << (shift + 7);
      return static_cast<std::int64_t>(value);
    }
    if (shift > 140) give_up(cursor);
  }
}

template <class Signed, class Unsigned>
std::uint64_t read_signed(Cursor& cursor) {
  return static_cast<std::uint64_t>(
      std::int64_t{static_cast<Signed>(cursor.template read<Unsigned>())});
}

// Only the format; none of one that is unknown.
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

// `vaddr` is where the cursor's first byte is loaded. Absolute and pc-relative pointers: code is
// described by no others.
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
