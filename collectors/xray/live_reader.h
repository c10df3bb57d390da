// The records of a running app on their way into call stacks: what an app may write wrongly is
// counted here, and costs it its own buffer.

#pragma once

#include <cstdint>
#include <set>

#include "collectors/xray/live_region.h"
#include "formats/xray/stacks.h"

namespace profd::xray {

// How much of an app's calls fits into some memory: stacks, and frames of a profile's stacks. What
// is beyond is counted, and its time its caller's.
struct LiveLimits {
  std::size_t stacks = 0;
  std::size_t frames = 0;
  std::size_t threads = 0;

  // `bytes` are all that is left for reading and for making a result.
  static LiveLimits of(std::uint64_t bytes);
};

class LiveReading {
 public:
  // `seed` is random: the app chooses its functions' numbers.
  LiveReading(std::uint64_t seed, const LiveLimits& limits);

  void take(const LivePiece& piece);

  // Records of functions, about: arguments count as one more.
  [[nodiscard]] std::uint64_t records() const { return records_; }

  // With what the app dropped in all, of which its buffers may not have told.
  [[nodiscard]] Measured so_far(std::uint64_t dropped) const;
  [[nodiscard]] Measured finish(std::uint64_t dropped);

 private:
  void add_untold(std::uint64_t dropped, Report& report) const;

  Stacks stacks_;
  std::set<std::int32_t> damaged_;  // threads whose buffer's rest makes no sense
  std::uint64_t records_ = 0;
  std::uint64_t told_lost_ = 0;
};

}  // namespace profd::xray
