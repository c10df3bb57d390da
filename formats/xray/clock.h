// Converts ticks to nanoseconds.
//
// The frequency in a trace's header is an estimate of the runtime. It is wrong on a host whose
// maximal CPU frequency the runtime took for the frequency of the counter. Each buffer has the
// ticks of its first record and the time of CLOCK_MONOTONIC in whole microseconds, which the
// runtime read 1 to 74 us later. Two such pairs that are 10 ms apart give the frequency to 0.1 %.
//
// The slope of a least-squares line through the pairs replaces the header's frequency if it differs
// by more than 0.5 % and by more than five times its own uncertainty. Pairs that are not on a line
// are not used: a clock was set in between.

#pragma once

#include <cstdint>
#include <optional>

namespace profd::xray {

class Clock {
 public:
  explicit Clock(std::uint64_t header_hz = 0) : header_hz_(header_hz) {}

  void add(std::uint64_t ticks, std::int64_t wall_ns);

  [[nodiscard]] double frequency_hz() const;  // never 0
  [[nodiscard]] double ns_per_tick() const { return 1e9 / frequency_hz(); }
  [[nodiscard]] std::uint64_t header_hz() const { return header_hz_; }

  // Whether the pairs show another frequency than the header's.
  [[nodiscard]] bool header_is_wrong() const;

 private:
  struct Fit {
    double hz = 0;
    double relative_error = 0;  // one standard deviation
  };

  // None: the pairs are too few, too close together, or not on a line.
  [[nodiscard]] std::optional<Fit> fit() const;

  std::uint64_t header_hz_;
  std::uint64_t first_ticks_ = 0;
  std::int64_t first_wall_ns_ = 0;
  // Number of pairs, their means, and the sums of the squared and mixed deviations from the means,
  // all relative to the first pair.
  double count_ = 0;
  double mean_ticks_ = 0;
  double mean_wall_ = 0;
  double ticks_ticks_ = 0;
  double ticks_wall_ = 0;
  double wall_wall_ = 0;
};

}  // namespace profd::xray
