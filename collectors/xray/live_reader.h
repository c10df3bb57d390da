// Makes call stacks of the records of a running app. Records that the app writes wrongly are
// counted and skipped up to the end of their buffer.

#pragma once

#include <cstdint>
#include <set>

#include "collectors/xray/live_region.h"
#include "formats/xray/stacks.h"

namespace profd::xray {

// Limits that keep the reading of an app's calls within some memory. Calls over a limit are
// counted, and their time counts for their caller.
struct LiveLimits {
  std::size_t stacks = 0;
  std::size_t frames = 0;  // of all stacks in a profile
  std::size_t threads = 0;

  // For `bytes` of memory for reading and for making a result.
  static LiveLimits of(std::uint64_t bytes);
};

class LiveReader {
 public:
  LiveReader(std::uint64_t seed, const LiveLimits& limits);

  void take(const LiveRecords& records);

  // The number of function records, roughly, since an argument counts as one more.
  [[nodiscard]] std::uint64_t records() const { return records_; }

  // `dropped` are all records that the app dropped, in its buffers and elsewhere.
  [[nodiscard]] Measured so_far(std::uint64_t dropped) const;
  [[nodiscard]] Measured finish(std::uint64_t dropped);

 private:
  [[nodiscard]] Measured with_losses(Measured measured, std::uint64_t dropped) const;

  Stacks stacks_;
  std::set<std::int32_t> malformed_;  // threads whose buffers have a malformed rest
  std::uint64_t records_ = 0;
  std::uint64_t counted_lost_ = 0;  // losses that the buffers report
};

}  // namespace profd::xray
