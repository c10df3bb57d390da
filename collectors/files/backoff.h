// When something that failed is tried again: after 1 s, then 2 s, 4 s and so on, up to a minute.

#pragma once

#include <algorithm>
#include <chrono>

namespace profd {

class Backoff {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  static constexpr std::chrono::seconds kLongest{60};
  static constexpr unsigned kMaxTries = 16;  // within eleven minutes

  // `now`: of the first failure.
  explicit Backoff(TimePoint now) : due_(now + std::chrono::seconds(1)) {}

  [[nodiscard]] bool is_due(TimePoint now) const { return now >= due_; }
  [[nodiscard]] bool has_ended() const { return tries_ >= kMaxTries; }
  [[nodiscard]] unsigned tries() const { return tries_; }
  [[nodiscard]] TimePoint due() const { return due_; }

  // Counts a try.
  void delay(TimePoint now) {
    constexpr unsigned kDoubled = 6;
    ++tries_;
    due_ = now + std::min(std::chrono::seconds(1U << std::min(tries_, kDoubled)), kLongest);
  }

 private:
  TimePoint due_;
  unsigned tries_ = 0;
};

}  // namespace profd
