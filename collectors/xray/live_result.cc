#include "collectors/xray/live_result.h"

#include <bit>
#include <cmath>
#include <utility>

#include "collectors/sandbox/encoder.h"
#include "formats/base/cursor.h"
#include "formats/profile/gperftools_reader.h"
#include "formats/profile/gperftools_writer.h"

namespace profd::xray {
namespace {

Error malformed() { return fail(ErrorCode::kMalformed, "the records' result makes no sense"); }

// All of a report's counts, in one order for both directions.
template <class R, class Each>
void for_each_count(R& report, Each each) {
  each(report.bytes);
  each(report.buffers);
  each(report.records);
  each(report.entries);
  each(report.exits);
  each(report.tail_exits);
  each(report.arguments);
  each(report.custom_events);
  each(report.typed_events);
  each(report.threads);
  for (auto& issue : report.issues) each(issue);
}

}  // namespace

std::string encode(const LiveResult& result) {
  parser::Encoder encoder;
  for_each_count(result.report, [&](std::uint64_t count) { encoder.add(count); });
  encoder.add(result.functions).add(result.patched);
  encoder.add(std::bit_cast<std::uint64_t>(result.ns_per_tick));
  encoder.add(encode_gperftools(result.exclusive)).add(encode_gperftools(result.calls));
  encoder.add(std::string_view(result.unknown_image));
  return encoder.take();
}

Result<LiveResult> decode_live_result(std::string_view bytes) {
  Cursor cursor(bytes);
  LiveResult result;
  for_each_count(result.report,
                 [&](std::uint64_t& count) { count = cursor.read<std::uint64_t>(); });
  result.functions = cursor.read<std::uint64_t>();
  result.patched = cursor.read<std::uint64_t>();
  result.ns_per_tick = std::bit_cast<double>(cursor.read<std::uint64_t>());
  const std::string_view exclusive = cursor.read_bytes(cursor.read<std::uint32_t>());
  const std::string_view calls = cursor.read_bytes(cursor.read<std::uint32_t>());
  result.unknown_image = cursor.read_bytes(cursor.read<std::uint32_t>());
  if (!cursor.ok() || cursor.remaining() != 0 || !std::isfinite(result.ns_per_tick))
    return malformed();
  auto first = decode_gperftools(exclusive);
  auto second = decode_gperftools(calls);
  if (!first || !second) return malformed();
  result.exclusive = std::move(*first);
  result.calls = std::move(*second);
  return result;
}

}  // namespace profd::xray
