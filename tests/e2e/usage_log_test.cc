// The trend of memory, by hand: what a leak adds to a minute is seen through peaks, and what comes
// before the second half does not count.

#include "tests/e2e/usage_log.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

namespace profd::e2e {
namespace {

using std::chrono_literals::operator""s;

// One a second, of a level that a leak raises in the second half. Each ninth has a peak besides.
std::vector<MemoryReading> readings_of(int seconds, std::uint64_t leaked_kib_a_second) {
  constexpr std::uint64_t kPeakKib = 20'000;
  const std::chrono::steady_clock::time_point begin;
  std::vector<MemoryReading> readings;
  readings.reserve(static_cast<std::size_t>(seconds));
  std::uint64_t level = 40'000;
  for (int i = 0; i < seconds; ++i) {
    level += i < seconds / 2 ? 100 : leaked_kib_a_second;
    readings.push_back({.at = begin + i * 1s, .resident_kib = level + (i % 9 == 0 ? kPeakKib : 0)});
  }
  return readings;
}

TEST(MemoryTrendTest, ALevelMemoryHasNone) {
  const auto trend = trend_of_second_half(readings_of(600, 0));
  ASSERT_TRUE(trend);
  EXPECT_NEAR(trend->kib_a_minute, 0, 0.1);
  EXPECT_NEAR(trend->last_kib, 40'000 + 300 * 100, 0.1);
}

TEST(MemoryTrendTest, ALeakIsSeenThroughPeaks) {
  const auto trend = trend_of_second_half(readings_of(600, 10));
  ASSERT_TRUE(trend);
  // A median may be off by the readings with peaks in its part, of which there are 3 of 20.
  EXPECT_NEAR(trend->kib_a_minute, 600, 20);
  EXPECT_NEAR(trend->last_kib, 40'000 + 300 * 100 + 300 * 10, 200);
}

TEST(MemoryTrendTest, AFewReadingsHaveNone) {
  EXPECT_FALSE(trend_of_second_half({}));
  EXPECT_FALSE(trend_of_second_half(readings_of(20, 10)));
}

}  // namespace
}  // namespace profd::e2e
