// The control of walks by chance, against a host whose number of walks follows the scale.

#include "collectors/off_cpu/walk_rate.h"

#include <cstdint>

#include <gtest/gtest.h>

namespace profd {
namespace {

constexpr std::uint64_t kRateLongNs = 10'000'000;
constexpr unsigned kRateCpus = 2;
constexpr std::uint32_t kRateOfCpu = 2000;
constexpr std::uint64_t kWantedWalks = 2000;  // by chance, a second: half of both CPUs'

// A host with a million blocks of 200 us a second, whose chance is scale / 2^32 for each 1,024 ns.
class SimulatedHost {
 public:
  // An interval with the scale. Returns its walks.
  std::uint64_t run(std::uint32_t scale) {
    const double chance = static_cast<double>(scale) / 4294967296.0 * 200'000 / 1024;
    const double least = 1.0 / 1024;
    const auto walks = static_cast<std::uint64_t>(100'000 * (chance < least ? least : chance));
    now_ns += WalkRate::kIntervalNs;
    sum.walks_by_chance += walks;
    return walks;
  }

  profd_switch_counters sum{};
  std::uint64_t now_ns = 1'000'000'000;
};

TEST(WalkRate, ABlockOfTheMeanTIsCertainAtFirst) {
  // 2^32 for each 10 ms, by 1,024 ns: 2^42 / 10^7.
  EXPECT_EQ(WalkRate::scale_of_certain(kRateLongNs), 439'804U);
  WalkRate rate(kRateLongNs, kRateOfCpu, kRateCpus);
  SimulatedHost host;
  EXPECT_EQ(rate.update(host.sum, host.now_ns), 439'804U);
}

TEST(WalkRate, ComesNearTheWantedWalksAndStays) {
  WalkRate rate(kRateLongNs, kRateOfCpu, kRateCpus);
  SimulatedHost host;
  std::uint32_t scale = rate.update(host.sum, host.now_ns);
  for (int i = 0; i < 20; ++i) {
    (void)host.run(scale);
    scale = rate.update(host.sum, host.now_ns);
  }
  for (int i = 0; i < 20; ++i) {
    const std::uint64_t walks = host.run(scale);
    scale = rate.update(host.sum, host.now_ns);
    EXPECT_NEAR(static_cast<double>(walks), kWantedWalks / 10.0, 5);
  }
}

TEST(WalkRate, HalvesAtOnceWhereThereWereTwiceTheWalks) {
  WalkRate rate(kRateLongNs, kRateOfCpu, kRateCpus);
  profd_switch_counters sum{};
  const std::uint32_t scale = rate.update(sum, 1'000'000'000);
  sum.walks_by_chance = 400;  // in 100 ms
  EXPECT_EQ(rate.update(sum, 1'100'000'000), scale / 2);
}

// Finds a scale that a quiet second sets so high that the next storm takes all walks.
TEST(WalkRate, GrowsByAQuarterAtMostAndNotAboveCertainForNothing) {
  WalkRate rate(kRateLongNs, kRateOfCpu, kRateCpus);
  profd_switch_counters sum{};
  std::uint32_t scale = rate.update(sum, 1'000'000'000);
  EXPECT_EQ(rate.update(sum, 1'100'000'000), scale);
  sum.walks_by_chance = 1600;
  scale = rate.update(sum, 1'200'000'000);
  EXPECT_EQ(rate.update(sum, 1'300'000'000), scale + scale / 4);
  EXPECT_EQ(rate.update(sum, 9'300'000'000), scale + scale / 4 + (scale + scale / 4) / 4);
}

// Finds a scale that can only fall: many blocks of 40 us would be sampled by a fraction of the
// walks that may be.
TEST(WalkRate, GrowsAboveCertainWhileBlocksAreLeftUnsampled) {
  WalkRate rate(kRateLongNs, kRateOfCpu, kRateCpus);
  profd_switch_counters sum{};
  std::uint64_t now_ns = 1'000'000'000;
  const std::uint32_t certain = rate.update(sum, now_ns);
  std::uint32_t scale = certain;
  for (int i = 0; i < 3; ++i) {
    sum.walks_by_chance += 50;  // of 200 that may be
    sum.of_session[7].short_unsampled.count += 10'000;
    const std::uint32_t before = scale;
    scale = rate.update(sum, now_ns += WalkRate::kIntervalNs);
    EXPECT_EQ(scale, before + before / 4);
  }
  // A quiet time, in which each block has a token.
  const std::uint32_t after = rate.update(sum, now_ns += WalkRate::kIntervalNs);
  EXPECT_EQ(after, scale - scale / 4);
  for (int i = 0; i < 10; ++i) scale = rate.update(sum, now_ns += WalkRate::kIntervalNs);
  EXPECT_EQ(scale, certain);
}

// Finds a sum that stops at the limits of the number.
TEST(WalkRate, StopsAtTheHighestScale) {
  WalkRate rate(kRateLongNs, kRateOfCpu, kRateCpus);
  profd_switch_counters sum{};
  std::uint64_t now_ns = 1'000'000'000;
  std::uint32_t scale = rate.update(sum, now_ns);
  for (int i = 0; i < 60; ++i) {
    ++sum.of_session[0].short_unsampled.count;
    scale = rate.update(sum, now_ns += WalkRate::kIntervalNs);
  }
  EXPECT_EQ(scale, 0xffffffffU);
}

TEST(WalkRate, NeverReachesNothing) {
  WalkRate rate(kRateLongNs, kRateOfCpu, kRateCpus);
  profd_switch_counters sum{};
  std::uint64_t now_ns = 1'000'000'000;
  std::uint32_t scale = rate.update(sum, now_ns);
  for (int i = 0; i < 30; ++i) {
    sum.walks_by_chance += 1'000'000'000;
    scale = rate.update(sum, now_ns += WalkRate::kIntervalNs);
  }
  EXPECT_EQ(scale, 1U);
  EXPECT_EQ(rate.update(sum, now_ns + WalkRate::kIntervalNs), 2U);
}

}  // namespace
}  // namespace profd
