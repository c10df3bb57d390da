#include "tests/formats/xray/fdr_writer.h"

#include <boost/endian/conversion.hpp>

namespace profd::xray {
namespace {

template <class T>
std::string in_order(T value, std::endian order) {
  std::string bytes(sizeof value, '\0');
  auto* to = reinterpret_cast<unsigned char*>(bytes.data());
  if (order == std::endian::little) {
    boost::endian::endian_store<T, sizeof value, boost::endian::order::little>(to, value);
  } else {
    boost::endian::endian_store<T, sizeof value, boost::endian::order::big>(to, value);
  }
  return bytes;
}

}  // namespace

std::string encode_header(const Header& header) {
  const std::endian order = header.format.order;
  const bool is_little = order == std::endian::little;
  const std::uint32_t flags = (header.constant_ticks ? (is_little ? 1U : 1U << 31) : 0U) |
                              (header.nonstop_ticks ? (is_little ? 2U : 1U << 30) : 0U);
  return in_order(header.format.version, order) + in_order(kTypeFdr, order) +
         in_order(flags, order) + in_order(header.frequency_hz, order) +
         in_order(header.buffer_bytes, order) + in_order(std::uint64_t{0}, order);
}

template <class T>
std::string Writer::bytes_of(T value) const {
  return in_order(value, format_.order);
}

void Writer::function(Action action, std::uint32_t id, std::uint32_t delta) {
  const auto number = static_cast<std::uint32_t>(action);
  const std::uint32_t word =
      format_.order == std::endian::little ? id << 4 | number << 1 : number << kFunctionIdBits | id;
  records_ += bytes_of(word) + bytes_of(delta);
}

void Writer::metadata(Kind kind, std::string_view data) {
  const auto number = static_cast<unsigned>(kind);
  const unsigned first = format_.order == std::endian::little ? number << 1 | 1 : number | 0x80;
  records_.push_back(static_cast<char>(first));
  records_.append(data).append(kMetadataBytes - 1 - data.size(), '\0');
}

void Writer::new_buffer(std::int32_t thread) { metadata(Kind::kNewBuffer, bytes_of(thread)); }
void Writer::end_of_buffer() { metadata(Kind::kEndOfBuffer, {}); }
void Writer::ticks(std::uint64_t ticks) { metadata(Kind::kTicks, bytes_of(ticks)); }
void Writer::argument(std::uint64_t value) { metadata(Kind::kArgument, bytes_of(value)); }
void Writer::pid(std::int32_t process) { metadata(Kind::kPid, bytes_of(process)); }

void Writer::new_cpu(std::uint16_t cpu, std::uint64_t ticks) {
  metadata(Kind::kNewCpu, bytes_of(cpu) + bytes_of(ticks));
}

void Writer::wall_clock(std::int64_t wall_ns) {
  const std::int64_t seconds = wall_ns / 1'000'000'000;
  const auto microseconds = static_cast<std::int32_t>(wall_ns % 1'000'000'000 / 1'000);
  metadata(Kind::kWallClock, bytes_of(seconds) + bytes_of(microseconds));
}

void Writer::event(Kind kind, std::string_view data, std::string_view payload) {
  metadata(kind, bytes_of(static_cast<std::int32_t>(payload.size())).append(data));
  records_ += payload;
}

void Writer::custom_event(std::string_view payload, std::uint64_t ticks) {
  if (format_.version == 5) {
    event(Kind::kCustomEvent, bytes_of(static_cast<std::uint32_t>(ticks)), payload);
  } else {
    event(Kind::kCustomEvent, bytes_of(ticks), payload);
  }
}

void Writer::typed_event(std::uint16_t type, std::string_view payload, std::uint64_t ticks) {
  const std::string time =
      format_.version == 5 ? bytes_of(static_cast<std::uint32_t>(ticks)) : bytes_of(ticks);
  event(Kind::kTypedEvent, time + bytes_of(type), payload);
}

void Writer::preamble(const Preamble& preamble) {
  new_buffer(preamble.thread);
  wall_clock(preamble.wall_ns);
  if (format_.version >= 3) pid(preamble.process);
  new_cpu(preamble.cpu, preamble.ticks);
}

std::string Writer::take_buffer(std::uint64_t buffer_bytes) {
  std::string records = take_records();
  if (format_.version == 1) {
    end_of_buffer();
    records += take_records();
    // The runtime leaves older content of the buffer there.
    if (records.size() < buffer_bytes) records.resize(buffer_bytes, '\x55');
    return records;
  }
  metadata(Kind::kBufferExtents, bytes_of(std::uint64_t{records.size()}));
  return take_records() + records;
}

std::string Writer::take_records() {
  std::string taken;
  taken.swap(records_);
  return taken;
}

}  // namespace profd::xray
