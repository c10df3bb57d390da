#include "collectors/xray/live_reader.h"

#include <algorithm>

#include "formats/xray/fdr_format.h"

namespace profd::xray {
namespace {

constexpr Format kFormat{.version = kMaxVersion, .order = std::endian::little};

// A stack takes 600 bytes with the tree, a copy of it, two profiles and their text, measured with
// stacks of 16 frames and more.
constexpr std::size_t kBytesOfStack = 800;
constexpr std::size_t kFramesOfStack = 8;
constexpr std::size_t kMaxStacks = std::size_t{1} << 19;
constexpr std::size_t kStacksOfThread = 4;  // a thread takes as much memory as 4 stacks
constexpr std::size_t kOpenOfStack = 4;

}  // namespace

LiveLimits LiveLimits::of(std::uint64_t bytes) {
  const std::size_t stacks = std::min<std::uint64_t>(bytes / kBytesOfStack, kMaxStacks);
  return {.stacks = stacks,
          .frames = stacks * kFramesOfStack,
          .threads = std::min(stacks / kStacksOfThread, LiveRegion::kMaxThreads)};
}

LiveReader::LiveReader(std::uint64_t seed, const LiveLimits& limits)
    : stacks_({.format = kFormat,
               .seed = seed,
               .listener = nullptr,
               .max_nodes = limits.stacks,
               .max_threads = limits.threads,
               .max_open = limits.stacks * kOpenOfStack}) {}

void LiveReader::take(const LiveRecords& records) {
  const ThreadId thread{.process = 0, .thread = records.thread};
  if (records.gap || records.lost != 0) {
    stacks_.gap(thread, records.lost);
    counted_lost_ += records.lost;
  }
  if (records.begins_buffer) {
    malformed_.erase(records.thread);
    stacks_.begin_buffer(thread, kFormat);
  }
  if (malformed_.contains(records.thread)) return;
  const Decoded decoded = stacks_.append(thread, records.bytes);
  const std::size_t preamble = records.begins_buffer ? LiveRegion::kPreambleBytes : 0;
  if (decoded.bytes > preamble) records_ += (decoded.bytes - preamble) / kFunctionBytes;
  if (decoded.bytes == records.bytes.size()) return;
  // An app publishes whole records only, so the rest is malformed even if it looks cut.
  stacks_.end_buffer(thread, {.bytes = decoded.bytes, .stop = Stop::kMalformed},
                     records.bytes.size() - decoded.bytes, Tail::kWhole);
  malformed_.insert(records.thread);
}

Measured LiveReader::with_losses(Measured measured, std::uint64_t dropped) const {
  if (dropped > counted_lost_) measured.report.count(Issue::kLostRecords, dropped - counted_lost_);
  return measured;
}

Measured LiveReader::so_far(std::uint64_t dropped) const {
  return with_losses(stacks_.snapshot(), dropped);
}

Measured LiveReader::finish(std::uint64_t dropped) {
  return with_losses(stacks_.finish(), dropped);
}

}  // namespace profd::xray
