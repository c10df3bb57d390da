// Any records of an app's threads in any order, and any result of a follower.
//
// The input has for each chunk of records the thread, flags (1: a buffer begins, 2: a gap, 4: lost
// records), the number of bytes (16 bits) and the bytes.

#include <cstdint>
#include <string_view>

#include "collectors/xray/live_reader.h"
#include "collectors/xray/live_result.h"
#include "tests/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  (void)profd::xray::decode_live_result(bytes);
  profd::xray::LiveReader reader(1, profd::xray::LiveLimits::of(std::uint64_t{16} << 20));
  constexpr std::size_t kHeadBytes = 4;
  while (bytes.size() >= kHeadBytes) {
    const auto length = static_cast<std::size_t>(static_cast<unsigned char>(bytes[2]) |
                                                 static_cast<unsigned char>(bytes[3]) << 8);
    const profd::xray::LiveRecords records{.thread = bytes[0],
                                           .begins_buffer = (bytes[1] & 1) != 0,
                                           .lost = static_cast<std::uint64_t>(bytes[1] & 4),
                                           .gap = (bytes[1] & 2) != 0,
                                           .bytes = bytes.substr(kHeadBytes, length)};
    reader.take(records);
    bytes.remove_prefix(kHeadBytes + records.bytes.size());
  }
  const profd::xray::Measured so_far = reader.so_far(3);
  const profd::xray::Measured all = reader.finish(3);
  require(so_far.report.records == all.report.records, "so_far() changes nothing");
  require(all.report.entries + all.report.exits == all.report.records, "a record is one of two");
  require(all.report.bytes <= size, "no more is read than there is");
  std::uint64_t calls = 0;
  for (const auto& node : all.tree.nodes()) calls += node.calls;
  require(calls <= all.report.records, "no call without a record");
  return 0;
}
