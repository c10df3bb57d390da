#include "formats/xray/clock.h"

#include <random>

#include <gtest/gtest.h>

namespace profd::xray {
namespace {

// Pairs as in buffers: the wall clock is read up to 74 us later, in whole microseconds.
Clock clock_of(std::uint64_t header_hz, double true_hz, int buffers, std::int64_t apart_ns) {
  std::mt19937_64 random(3);  // NOLINT: the same every time
  Clock clock(header_hz);
  for (int i = 0; i < buffers; ++i) {
    const std::int64_t now_ns = 1'000'000'000'000 + i * apart_ns;
    const std::uint64_t late_ns = random() % 20 == 0 ? random() % 74'000 : 1'700;
    const auto ticks = static_cast<std::uint64_t>(static_cast<double>(now_ns) * true_hz / 1e9);
    clock.add(ticks, (now_ns + static_cast<std::int64_t>(late_ns)) / 1000 * 1000);
  }
  return clock;
}

TEST(XrayClock, TheFrequencyOfARightHeaderIsUsed) {
  const Clock clock = clock_of(2'596'124'000, 2.596e9, 100, 1'000'000);
  EXPECT_FALSE(clock.header_is_wrong());
  EXPECT_EQ(clock.frequency_hz(), 2'596'124'000.0);
}

TEST(XrayClock, AWrongHeaderIsReplacedByTheMeasuredFrequency) {
  const Clock clock = clock_of(3'700'000'000, 2.5961e9, 100, 1'000'000);
  EXPECT_TRUE(clock.header_is_wrong());
  EXPECT_NEAR(clock.frequency_hz(), 2.5961e9, 2.5961e6);
}

TEST(XrayClock, TwoBuffersOrAShortTimeDoNotReplaceTheHeader) {
  EXPECT_FALSE(clock_of(3'700'000'000, 2.5961e9, 2, 1'000'000'000).header_is_wrong());
  EXPECT_FALSE(clock_of(3'700'000'000, 2.5961e9, 10, 10'000).header_is_wrong());
}

TEST(XrayClock, AClockThatWasSetDoesNotReplaceTheHeader) {
  Clock clock(1'000'000'000);
  for (std::int64_t i = 0; i < 100; ++i) {
    const std::int64_t step = i == 50 ? 3'600'000'000'000 : 0;
    clock.add(static_cast<std::uint64_t>(i * 1'000'000 + step), i * 1'000'000);
  }
  EXPECT_FALSE(clock.header_is_wrong());
}

TEST(XrayClock, AHeaderWithoutAFrequencyIsWrong) {
  EXPECT_TRUE(Clock(0).header_is_wrong());
  EXPECT_EQ(Clock(0).frequency_hz(), 1e9);
  EXPECT_NEAR(clock_of(0, 2e9, 100, 1'000'000).frequency_hz(), 2e9, 2e6);
}

TEST(XrayClock, AnyPairsGiveAFrequency) {
  std::mt19937_64 random(5);  // NOLINT: the same every time
  Clock clock(1'000);
  for (int i = 0; i < 1000; ++i) {
    clock.add(random(), static_cast<std::int64_t>(random()));
    EXPECT_GT(clock.frequency_hz(), 0);
  }
}

}  // namespace
}  // namespace profd::xray
