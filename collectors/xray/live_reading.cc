#include "collectors/xray/live_reading.h"

#include "formats/xray_fdr_format.h"

namespace profd::xray {
namespace {

constexpr Format kFormat{.version = kMaxVersion, .order = std::endian::little};
constexpr std::size_t kPreambleBytes = 4 * kMetadataBytes;
constexpr std::size_t kMaxNodes = std::size_t{1} << 19;

}  // namespace

LiveReading::LiveReading(std::uint64_t seed)
    : stacks_({.format = kFormat, .seed = seed, .listener = nullptr, .max_nodes = kMaxNodes}) {}

void LiveReading::take(const LivePiece& piece) {
  const ThreadId thread{.process = 0, .thread = piece.thread};
  if (piece.gap || piece.lost != 0) {
    stacks_.gap(thread, piece.lost);
    told_lost_ += piece.lost;
  }
  if (piece.begins_buffer) {
    damaged_.erase(piece.thread);
    stacks_.begin_buffer(thread, kFormat);
  }
  if (damaged_.contains(piece.thread)) return;
  const Decoded decoded = stacks_.append(thread, piece.records);
  const std::size_t preamble = piece.begins_buffer ? kPreambleBytes : 0;
  if (decoded.bytes > preamble) records_ += (decoded.bytes - preamble) / kFunctionBytes;
  if (decoded.bytes == piece.records.size()) return;
  // An app tells of whole records only, and of nothing but records.
  stacks_.end_buffer(thread, {.bytes = decoded.bytes, .stop = Stop::kDamaged},
                     piece.records.size() - decoded.bytes, Tail::kWhole);
  damaged_.insert(piece.thread);
}

void LiveReading::add_untold(std::uint64_t dropped, Report& report) const {
  if (dropped > told_lost_) report.count(Issue::kLostRecords, dropped - told_lost_);
}

Measured LiveReading::so_far(std::uint64_t dropped) const {
  Measured measured = stacks_.snapshot();
  add_untold(dropped, measured.report);
  return measured;
}

Measured LiveReading::finish(std::uint64_t dropped) {
  Measured measured = stacks_.finish();
  add_untold(dropped, measured.report);
  return measured;
}

}  // namespace profd::xray
