#include "formats/xray/clock.h"

#include <algorithm>
#include <cmath>

namespace profd::xray {
namespace {

constexpr double kFallbackHz = 1e9;  // without a counter, the runtime's ticks are nanoseconds
constexpr double kMinSpanNs = 5e6;
constexpr double kLeastDifference = 0.005;
constexpr double kUncertainties = 5;
// The least jitter assumed of the wall clock's readings, since few pairs may be on a line by
// chance.
constexpr double kJitterNs = 20e3;
// Reading two clocks one after the other can't give more jitter, so one of them was set.
constexpr double kMaxJitterNs = 1e6;

}  // namespace

void Clock::add(std::uint64_t ticks, std::int64_t wall_ns) {
  if (count_ == 0) {
    first_ticks_ = ticks;
    first_wall_ns_ = wall_ns;
  }
  // Differences may be negative, since buffers come in any order.
  const auto x = static_cast<double>(static_cast<std::int64_t>(ticks - first_ticks_));
  const auto y = static_cast<double>(static_cast<std::int64_t>(
      static_cast<std::uint64_t>(wall_ns) - static_cast<std::uint64_t>(first_wall_ns_)));
  count_ += 1;
  const double dx = x - mean_ticks_;
  const double dy = y - mean_wall_;
  mean_ticks_ += dx / count_;
  mean_wall_ += dy / count_;
  ticks_ticks_ += dx * (x - mean_ticks_);
  ticks_wall_ += dx * (y - mean_wall_);
  wall_wall_ += dy * (y - mean_wall_);
}

std::optional<Clock::Fit> Clock::fit() const {
  if (count_ < 3 || !(ticks_wall_ > 0)) return std::nullopt;
  const double spread_ns = std::sqrt(wall_wall_ / count_);
  if (spread_ns * 2 < kMinSpanNs) return std::nullopt;
  const double ns_per_tick = ticks_wall_ / ticks_ticks_;
  const double residual = std::max(0.0, wall_wall_ - ticks_wall_ * ns_per_tick);
  const double jitter_ns = std::max(std::sqrt(residual / (count_ - 2)), kJitterNs);
  const double hz = 1e9 / ns_per_tick;
  const bool is_line = jitter_ns < kMaxJitterNs;
  if (!is_line || !std::isfinite(hz) || hz <= 0) return std::nullopt;
  return Fit{.hz = hz, .relative_error = jitter_ns / std::sqrt(wall_wall_)};
}

bool Clock::header_is_wrong() const {
  if (header_hz_ == 0) return true;
  const std::optional<Fit> fitted = fit();
  if (!fitted) return false;
  const double difference = std::abs(fitted->hz / static_cast<double>(header_hz_) - 1);
  return difference > std::max(kLeastDifference, kUncertainties * fitted->relative_error);
}

double Clock::frequency_hz() const {
  const std::optional<Fit> fitted = fit();
  if (header_is_wrong() && fitted) return fitted->hz;
  return header_hz_ == 0 ? kFallbackHz : static_cast<double>(header_hz_);
}

}  // namespace profd::xray
