// The records of a running app on their way into call stacks: what an app may write wrongly is
// counted here, and costs it its own buffer.

#pragma once

#include <cstdint>
#include <set>

#include "collectors/xray/live_region.h"
#include "formats/xray_stacks.h"

namespace profd::xray {

class LiveReading {
 public:
  // `seed` is random: the app chooses its functions' numbers.
  explicit LiveReading(std::uint64_t seed);

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
