// From ticks to nanoseconds.
//
// A header's frequency is the runtime's guess, which is wrong where the CPU's top frequency was
// taken for that of its counter. Each buffer tells the ticks of its first record and, read 1 to 74
// us later, the time by CLOCK_MONOTONIC (in whole microseconds). Two such pairs that are 10 ms
// apart tell the frequency to 0.1 %.
//
// So the slope of a least-squares line through the pairs is taken in place of the header's value
// where it surely differs: by more than 0.5 %, and by more than five times its own uncertainty.
// Pairs that lie on no line tell nothing: a clock was set.

#pragma once

#include <cstdint>

namespace profd::xray {

class Clock {
 public:
  explicit Clock(std::uint64_t header_hz = 0) : header_hz_(header_hz) {}

  void add(std::uint64_t ticks, std::int64_t wall_ns);

  [[nodiscard]] double frequency_hz() const;  // never 0
  [[nodiscard]] double ns_per_tick() const { return 1e9 / frequency_hz(); }
  [[nodiscard]] std::uint64_t header_hz() const { return header_hz_; }

  // The header's frequency is not what the pairs show.
  [[nodiscard]] bool header_is_wrong() const;

 private:
  struct Fit {
    double hz = 0;
    double relative_error = 0;  // one standard deviation
  };

  // False: too few pairs, too close together, or on no line.
  [[nodiscard]] bool fit(Fit& out) const;

  std::uint64_t header_hz_;
  std::uint64_t first_ticks_ = 0;
  std::int64_t first_wall_ns_ = 0;
  // Of the pairs, relative to the first: how many, means, and sums of squared and mixed deviations.
  double count_ = 0;
  double mean_ticks_ = 0;
  double mean_wall_ = 0;
  double ticks_ticks_ = 0;
  double ticks_wall_ = 0;
  double wall_wall_ = 0;
};

}  // namespace profd::xray
