// Reads XRay's Flight Data Recorder traces: the header, and the records of one buffer.
// xray_fdr_format.h has the grammar; xray_log.h reads whole traces, xray_stacks.h makes stacks of
// them.
//
// Bytes are borrowed, and may be handed over in pieces: what is left of a cut record comes first in
// the next piece.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include <boost/endian/conversion.hpp>

#include "formats/base/result.h"
#include "formats/xray/fdr_format.h"

namespace profd::xray {

struct Header {
  Format format;
  bool constant_ticks = false;
  bool nonstop_ticks = false;
  std::uint64_t frequency_hz = 0;  // of the ticks, by the runtime's guess: xray_clock.h checks it
  std::uint64_t buffer_bytes = 0;  // of one buffer, as configured

  friend bool operator==(const Header&, const Header&) = default;
};

// kMalformed: no FDR trace, or of another type or version, which the message names.
[[nodiscard]] Result<Header> read_header(std::string_view bytes);

// One metadata record's content. Only what its kind has is set.
struct Metadata {
  Kind kind = Kind::kNewBuffer;
  std::int32_t id = 0;       // NEW_BUFFER: thread; PID: process
  std::uint16_t cpu = 0;     // NEW_CPU, CUSTOM_EVENT of version 4
  std::uint64_t ticks = 0;   // NEW_CPU, TICKS; of an event the delta in version 5
  std::int64_t wall_ns = 0;  // WALL_CLOCK
  std::int32_t bytes = 0;    // CUSTOM_EVENT, TYPED_EVENT: of the payload
  std::uint16_t type = 0;    // TYPED_EVENT
  std::uint64_t value = 0;   // ARGUMENT, BUFFER_EXTENTS
};

// `record` has 16 bytes. False: no kind that the version has.
[[nodiscard]] bool read_metadata(const Format& format, std::string_view record, Metadata& out);

// Where the ticks of a thread's records stand; carried from one piece, and one buffer, to the next.
struct Position {
  std::uint64_t ticks = 0;
  bool has_ticks = false;     // an absolute value has been seen, so deltas mean something
  std::uint64_t to_skip = 0;  // of an event's payload, in the next piece
};

struct Event {
  bool is_typed = false;
  std::uint16_t type = 0;
  std::uint64_t ticks = 0;
  std::string_view payload;         // at most kMaxPayloadBytes of it
  std::uint32_t payload_bytes = 0;  // all of it
};
inline constexpr std::size_t kMaxPayloadBytes = 4096;

// Takes what a buffer says; each does nothing here, so that a handler writes what it needs. By name
// and not virtual: 100 million records come in a second.
struct Handler {
  void on_function(Action /*action*/, std::uint32_t /*id*/, std::uint64_t /*ticks*/) {}
  void on_argument(std::uint64_t /*value*/) {}
  void on_event(const Event& /*event*/) {}
  void on_wall_clock(std::int64_t /*wall_ns*/) {}
  void on_new_buffer(std::int32_t /*thread*/) {}
  void on_pid(std::int32_t /*process*/) {}
  void on_new_cpu(std::uint16_t /*cpu*/) {}
  void on_absolute_ticks(std::uint64_t /*ticks*/) {}  // of NEW_CPU and TICKS
};

enum class Stop : std::uint8_t {
  kOutOfBytes,   // all is read but a cut record
  kEndOfBuffer,  // version 1's; padding follows
  kDamaged,      // no record: an unknown kind or action, an impossible size, another buffer's begin
};

struct Decoded {
  std::size_t bytes = 0;  // that were read
  Stop stop = Stop::kOutOfBytes;
};

namespace detail {

struct Function {
  std::uint32_t word = 0;
  std::uint32_t delta = 0;
};

template <std::endian kOrder>
Function load_function(const char* at) {
  constexpr auto kFrom =
      kOrder == std::endian::little ? boost::endian::order::little : boost::endian::order::big;
  const auto* first = reinterpret_cast<const unsigned char*>(at);
  return {boost::endian::endian_load<std::uint32_t, 4, kFrom>(first),
          boost::endian::endian_load<std::uint32_t, 4, kFrom>(first + 4)};
}

// The word's bits lie the other way round in a big-endian trace.
template <std::endian kOrder>
struct FunctionBits {
  static bool is_metadata(std::uint32_t word) {
    return kOrder == std::endian::little ? (word & 1) != 0 : (word >> 31) != 0;
  }
  static std::uint32_t action(std::uint32_t word) {
    return kOrder == std::endian::little ? (word >> 1) & 7 : (word >> kFunctionIdBits) & 7;
  }
  static std::uint32_t id(std::uint32_t word) {
    return kOrder == std::endian::little ? word >> 4 : word & kMaxFunctionId;
  }
};

// An event's ticks: absolute and of their own until version 4, a delta that counts in version 5.
[[nodiscard]] std::uint64_t event_ticks(const Format& format, const Metadata& event,
                                        Position& position);

// `left` begins with the event's record. The bytes that were taken, 0 when it is cut.
template <class Handler>
std::size_t take_event(const Format& format, const Metadata& event, std::string_view left,
                       Position& position, Handler& handler) {
  const auto size = static_cast<std::uint32_t>(event.bytes);
  const std::size_t shown = std::min<std::size_t>(size, kMaxPayloadBytes);
  if (left.size() < kMetadataBytes + shown) return 0;
  const Event seen{event.kind == Kind::kTypedEvent, event.type,
                   event_ticks(format, event, position), left.substr(kMetadataBytes, shown), size};
  handler.on_event(seen);
  const std::size_t taken = std::min(left.size(), kMetadataBytes + std::size_t{size});
  position.to_skip = kMetadataBytes + std::size_t{size} - taken;
  return taken;
}

// The bytes that were taken; 0 sets why not.
template <class Handler>
std::size_t take_metadata(const Format& format, std::string_view left, Position& position,
                          Handler& handler, Stop& stop) {
  Metadata record;
  if (left.size() < kMetadataBytes) return 0;
  if (!read_metadata(format, left.substr(0, kMetadataBytes), record)) {
    stop = Stop::kDamaged;
    return 0;
  }
  switch (record.kind) {
    case Kind::kNewBuffer:
      handler.on_new_buffer(record.id);
      break;
    case Kind::kPid:
      handler.on_pid(record.id);
      break;
    case Kind::kWallClock:
      handler.on_wall_clock(record.wall_ns);
      break;
    case Kind::kNewCpu:
      handler.on_new_cpu(record.cpu);
      [[fallthrough]];
    case Kind::kTicks:
      handler.on_absolute_ticks(record.ticks);
      position.ticks = record.ticks;
      position.has_ticks = true;
      break;
    case Kind::kArgument:
      handler.on_argument(record.value);
      break;
    case Kind::kCustomEvent:
    case Kind::kTypedEvent:
      return take_event(format, record, left, position, handler);
    case Kind::kEndOfBuffer:
      stop = Stop::kEndOfBuffer;
      break;
    case Kind::kBufferExtents:  // read by the one who finds the buffers
      stop = Stop::kDamaged;
      return 0;
  }
  return kMetadataBytes;
}

template <std::endian kOrder, class Handler>
Decoded decode(const Format& format, std::string_view bytes, Position& position, Handler& handler) {
  using Bits = FunctionBits<kOrder>;
  Stop stop = Stop::kOutOfBytes;
  std::size_t at = std::min<std::size_t>(bytes.size(), position.to_skip);
  position.to_skip -= at;
  // Both in registers: the handler's stores may be anywhere.
  std::uint64_t ticks = position.ticks;
  const std::size_t last = bytes.size() - std::min(bytes.size(), kFunctionBytes);
  while (at <= last && bytes.size() >= kFunctionBytes) {
    const Function record = load_function<kOrder>(bytes.data() + at);
    if (Bits::is_metadata(record.word)) [[unlikely]] {
      position.ticks = ticks;
      const std::size_t taken = take_metadata(format, bytes.substr(at), position, handler, stop);
      at += taken;
      ticks = position.ticks;
      if (taken == 0 || stop != Stop::kOutOfBytes) return {at, stop};
      continue;
    }
    const std::uint32_t action = Bits::action(record.word);
    if (action >= kActions) [[unlikely]] {
      stop = Stop::kDamaged;
      break;
    }
    ticks += record.delta;
    handler.on_function(static_cast<Action>(action), Bits::id(record.word), ticks);
    at += kFunctionBytes;
  }
  position.ticks = ticks;
  return {at, stop};
}

}  // namespace detail

// Hands over the records of a buffer, BUFFER_EXTENTS left out, one by one. `handler` is a Handler.
template <class Handler>
Decoded decode_records(const Format& format, std::string_view bytes, Position& position,
                       Handler& handler) {
  return format.order == std::endian::little
             ? detail::decode<std::endian::little>(format, bytes, position, handler)
             : detail::decode<std::endian::big>(format, bytes, position, handler);
}

}  // namespace profd::xray
