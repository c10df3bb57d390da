#include "collectors/xray/live_reading.h"

#include <algorithm>

#include "formats/xray/fdr_format.h"

namespace profd::xray {
namespace {

constexpr Format kFormat{.version = kMaxVersion, .order = std::endian::little};
constexpr std::size_t kPreambleBytes = 4 * kMetadataBytes;

// For each stack, in the tree, a copy of it, two profiles and their text: 600 bytes, measured with
// stacks of 16 frames and more.
constexpr std::size_t kBytesOfStack = 800;
constexpr std::size_t kFramesOfStack = 8;
constexpr std::size_t kMaxStacks = std::size_t{1} << 19;
constexpr std::size_t kStacksOfThread = 4;  // a thread takes as much memory as so many
constexpr std::size_t kOpenOfStack = 4;

}  // namespace

LiveLimits LiveLimits::of(std::uint64_t bytes) {
  const std::size_t stacks = std::min<std::uint64_t>(bytes / kBytesOfStack, kMaxStacks);
  return {.stacks = stacks,
          .frames = stacks * kFramesOfStack,
          .threads = std::min(stacks / kStacksOfThread, LiveRegion::kMaxThreads)};
}

LiveReading::LiveReading(std::uint64_t seed, const LiveLimits& limits)
    : stacks_({.format = kFormat,
               .seed = seed,
               .listener = nullptr,
               .max_nodes = limits.stacks,
               .max_threads = limits.threads,
               .max_open = limits.stacks * kOpenOfStack}) {}

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
