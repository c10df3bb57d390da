#include "collectors/xray/live_result.h"

#include <cmath>
#include <utility>

#include "collectors/sandbox/wire.h"
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
  sandbox::Encoder encoder;
  for_each_count(result.report, [&](std::uint64_t count) { encoder(count); });
  encoder(result.functions)(result.patched)(result.ns_per_tick);
  encoder(encode_gperftools(result.exclusive))(encode_gperftools(result.calls));
  encoder(result.unknown_image);
  return encoder.take();
}

Result<LiveResult> decode_live_result(std::string_view bytes) {
  sandbox::Decoder decoder(bytes);
  LiveResult result;
  std::string_view exclusive;
  std::string_view calls;
  for_each_count(result.report, [&](std::uint64_t& count) { decoder(count); });
  decoder(result.functions)(result.patched)(result.ns_per_tick)(exclusive)(calls);
  decoder(result.unknown_image);
  if (!decoder.is_complete() || !std::isfinite(result.ns_per_tick)) return malformed();
  auto first = decode_gperftools(exclusive);
  auto second = decode_gperftools(calls);
  if (!first || !second) return malformed();
  result.exclusive = std::move(*first);
  result.calls = std::move(*second);
  return result;
}

}  // namespace profd::xray
