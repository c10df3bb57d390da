// Reads XRay's Flight Data Recorder traces: the header, and the records of one buffer.
// fdr_format.h has the grammar; log.h reads whole traces, and stacks.h makes call stacks of them.
//
// The bytes are borrowed and may come in several chunks. A record that the end of a chunk cuts must
// be at the start of the next chunk.

#pragma once

#include <algorithm>
#include <compare>
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
  std::uint64_t frequency_hz = 0;  // of the ticks, estimated by the runtime; clock.h checks it
  std::uint64_t buffer_bytes = 0;  // configured size of one buffer

  friend bool operator==(const Header&, const Header&) = default;
};

// kMalformed: not an FDR trace, or of another type or version, which the message names.
[[nodiscard]] Result<Header> read_header(std::string_view bytes);

// The content of a metadata record. Only the members of its kind are set.
struct Metadata {
  Kind kind = Kind::kNewBuffer;
  std::int32_t id = 0;       // NEW_BUFFER: thread; PID: process
  std::uint16_t cpu = 0;     // NEW_CPU, CUSTOM_EVENT of version 4
  std::uint64_t ticks = 0;   // NEW_CPU, TICKS, events; in version 5 an event's delta
  std::int64_t wall_ns = 0;  // WALL_CLOCK
  std::int32_t bytes = 0;    // CUSTOM_EVENT, TYPED_EVENT: size of the payload
  std::uint16_t type = 0;    // TYPED_EVENT
  std::uint64_t value = 0;   // ARGUMENT, BUFFER_EXTENTS
};

// `record` has 16 bytes. False: the version has no record of this kind.
[[nodiscard]] bool read_metadata(const Format& format, std::string_view record, Metadata& out);

// The state of a thread's records, which is kept from one chunk, and one buffer, to the next.
struct Position {
  std::uint64_t ticks = 0;
  bool has_ticks = false;     // `ticks` is absolute: NEW_CPU or TICKS has been read
  std::uint64_t to_skip = 0;  // bytes of an event's payload in the next chunk
};

struct Event {
  bool is_typed = false;
  std::uint16_t type = 0;
  std::uint64_t ticks = 0;
  std::string_view payload;         // its first kMaxPayloadBytes at most
  std::uint32_t payload_bytes = 0;  // the whole payload's size
};
inline constexpr std::size_t kMaxPayloadBytes = 4096;

// The base of a handler of records. Its functions do nothing; a handler hides those that it needs.
// They are not virtual, since the decoder calls them 100 million times a second.
struct Handler {
  void on_function(Action /*action*/, std::uint32_t /*id*/, std::uint64_t /*ticks*/) {}
  void on_argument(std::uint64_t /*value*/) {}
  void on_event(const Event& /*event*/) {}
  void on_wall_clock(std::int64_t /*wall_ns*/) {}
  void on_new_buffer(std::int32_t /*thread*/) {}
  void on_pid(std::int32_t /*process*/) {}
  void on_new_cpu(std::uint16_t /*cpu*/) {}
  void on_absolute_ticks(std::uint64_t /*ticks*/) {}  // NEW_CPU and TICKS
};

struct ThreadId {
  std::int32_t process = 0;
  std::int32_t thread = 0;

  friend auto operator<=>(const ThreadId&, const ThreadId&) = default;
};

// Receives calls and events in the order of the records, for a timeline. Times are ticks, which do
// not go back within a thread.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void on_enter(ThreadId thread, std::uint32_t function, std::uint64_t ticks) = 0;
  // An argument of the call that was entered last.
  virtual void on_argument(ThreadId thread, std::uint64_t value) = 0;
  virtual void on_exit(ThreadId thread, std::uint32_t function, std::uint64_t ticks) = 0;
  // A call that had begun before the thread's records, at `first_ticks`, and contains all calls
  // since. It is the `outer`th such call of the segment.
  virtual void on_late_root(ThreadId thread, std::uint32_t function, std::uint64_t first_ticks,
                            std::uint64_t ticks, std::uint64_t outer) = 0;
  virtual void on_event(ThreadId thread, const Event& event) = 0;
};

enum class Stop : std::uint8_t {
  kOutOfBytes,   // everything is read, except for a record that the end cuts
  kEndOfBuffer,  // END_OF_BUFFER of version 1; padding follows
  kMalformed,    // an unknown kind or action, an impossible size, or the start of another buffer
};

struct Decoded {
  std::size_t bytes = 0;  // decoded
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

// The order of the word's bit fields is reversed in a big-endian trace.
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

// The ticks of an event. They are absolute until version 4, and a delta that advances `position` in
// version 5.
[[nodiscard]] std::uint64_t event_ticks(const Format& format, const Metadata& event,
                                        Position& position);

// `left` begins with the event's record. Returns the bytes that were decoded; 0: the event is cut.
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

// Returns the bytes that were decoded. 0: the record is cut, or `stop` has the reason.
template <class Handler>
std::size_t take_metadata(const Format& format, std::string_view left, Position& position,
                          Handler& handler, Stop& stop) {
  Metadata record;
  if (left.size() < kMetadataBytes) return 0;
  if (!read_metadata(format, left.substr(0, kMetadataBytes), record)) {
    stop = Stop::kMalformed;
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
    case Kind::kBufferExtents:  // must not be within a buffer (buffers.h)
      stop = Stop::kMalformed;
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
  // A local, which the compiler keeps in a register though the handler writes to memory.
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
      stop = Stop::kMalformed;
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

// Calls `handler`, a Handler, for each record of a buffer. `bytes` begin behind BUFFER_EXTENTS.
template <class Handler>
Decoded decode_records(const Format& format, std::string_view bytes, Position& position,
                       Handler& handler) {
  return format.order == std::endian::little
             ? detail::decode<std::endian::little>(format, bytes, position, handler)
             : detail::decode<std::endian::big>(format, bytes, position, handler);
}

}  // namespace profd::xray
