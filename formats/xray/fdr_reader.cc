#include "formats/xray/fdr_reader.h"

#include <array>
#include <string>

#include "formats/base/cursor.h"
#include "formats/base/errors.h"

namespace profd::xray {
namespace {

constexpr std::array<std::uint16_t, 3> kTypes{0, kTypeFdr, 2};

// Whether version and type are small numbers in this byte order. They are in one order only.
bool is_header(std::string_view bytes, std::endian order, std::uint16_t& version,
               std::uint16_t& type) {
  Cursor cursor(bytes, order);
  version = cursor.read<std::uint16_t>();
  type = cursor.read<std::uint16_t>();
  return cursor.ok() && version < 0x100 && type < kTypes.size();
}

Error other_type(std::uint16_t type) {
  return fail(ErrorCode::kMalformed, type == 0 ? "an XRay trace in basic mode" : "an XRay profile",
              "profd reads traces in Flight Data Recorder mode (xray_mode=xray-fdr)");
}

// A kind that the version does not have makes a record malformed. Versions that were never released
// are read like the next release.
bool has_kind(std::uint16_t version, Kind kind) {
  switch (kind) {
    case Kind::kEndOfBuffer:
      return version == 1;
    case Kind::kBufferExtents:
    case Kind::kTypedEvent:
      return version >= 2;
    case Kind::kPid:
      return version >= 3;
    default:
      return true;
  }
}

std::int32_t read_i32(Cursor& cursor) {
  return static_cast<std::int32_t>(cursor.read<std::uint32_t>());
}

// Deltas of version 5 may be negative, so they are sign-extended.
std::uint64_t read_event_time(std::uint16_t version, Cursor& cursor) {
  if (version < 5) return cursor.read<std::uint64_t>();
  return static_cast<std::uint64_t>(std::int64_t{read_i32(cursor)});
}

// A time that overflows is invalid. Clock ignores it, since it is not on the line of the others.
std::int64_t read_wall_ns(Cursor& cursor) {
  const std::uint64_t seconds = cursor.read<std::uint64_t>();
  const std::uint64_t microseconds = cursor.read<std::uint32_t>();
  return static_cast<std::int64_t>(seconds * 1'000'000'000 + microseconds * 1'000);
}

void read_event(std::uint16_t version, Cursor& cursor, Metadata& out) {
  out.bytes = read_i32(cursor);
  out.ticks = read_event_time(version, cursor);
  if (out.kind == Kind::kTypedEvent || version == 4) {
    (out.kind == Kind::kTypedEvent ? out.type : out.cpu) = cursor.read<std::uint16_t>();
  }
}

}  // namespace

Result<Header> read_header(std::string_view bytes) {
  if (bytes.size() < kHeaderBytes) {
    return malformed("not an XRay trace: shorter than a header");
  }
  Header header;
  std::uint16_t type = 0;
  header.format.order = std::endian::little;
  if (!is_header(bytes, std::endian::little, header.format.version, type)) {
    header.format.order = std::endian::big;
    if (!is_header(bytes, std::endian::big, header.format.version, type)) {
      return malformed("not an XRay trace: it does not begin with a header");
    }
  }
  if (type != kTypeFdr) return other_type(type);
  if (header.format.version < kMinVersion || header.format.version > kMaxVersion) {
    return malformed("an XRay trace of version " + std::to_string(header.format.version) +
                     " (profd reads 1 to 5)");
  }
  Cursor cursor(bytes.substr(4), header.format.order);
  const auto flags = cursor.read<std::uint32_t>();
  const bool is_little = header.format.order == std::endian::little;
  header.constant_ticks = (flags & (is_little ? 1U : 1U << 31)) != 0;
  header.nonstop_ticks = (flags & (is_little ? 2U : 1U << 30)) != 0;
  header.frequency_hz = cursor.read<std::uint64_t>();
  header.buffer_bytes = cursor.read<std::uint64_t>();
  return header;
}

bool read_metadata(const Format& format, std::string_view record, Metadata& out) {
  Cursor cursor(record, format.order);
  const auto first = cursor.read<std::uint8_t>();
  const unsigned kind = format.order == std::endian::little ? first >> 1U : first & 0x7fU;
  if (kind >= kKinds) return false;
  out = {};
  out.kind = static_cast<Kind>(kind);
  if (!has_kind(format.version, out.kind)) return false;
  switch (out.kind) {
    case Kind::kNewBuffer:
    case Kind::kPid:
      out.id = read_i32(cursor);
      break;
    case Kind::kNewCpu:
      out.cpu = cursor.read<std::uint16_t>();
      [[fallthrough]];
    case Kind::kTicks:
      out.ticks = cursor.read<std::uint64_t>();
      break;
    case Kind::kWallClock:
      out.wall_ns = read_wall_ns(cursor);
      break;
    case Kind::kCustomEvent:
    case Kind::kTypedEvent:
      read_event(format.version, cursor, out);
      return out.bytes >= 0;
    case Kind::kArgument:
    case Kind::kBufferExtents:
      out.value = cursor.read<std::uint64_t>();
      break;
    case Kind::kEndOfBuffer:
      break;
  }
  return true;
}

namespace detail {

std::uint64_t event_ticks(const Format& format, const Metadata& event, Position& position) {
  if (format.version == 5) {
    position.ticks += event.ticks;
    return position.ticks;
  }
  const bool is_junk = format.version < 4 && event.kind == Kind::kCustomEvent;
  return is_junk ? position.ticks : event.ticks;
}

}  // namespace detail

}  // namespace profd::xray
