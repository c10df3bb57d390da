// The balance of one thread over the choice of the kernel side, where taking a stack makes a block
// longer: its total is the kernel's, and its sites keep their shares.

#include "collectors/off_cpu/unsampled_balance.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>

#include <gtest/gtest.h>

#include "bpf/block_choice.h"

namespace profd {
namespace {

constexpr std::uint32_t kChance = 1U << 26;  // 1/64
constexpr double kWeight = 64;
constexpr double kWalkNs = 6'000;
constexpr std::size_t kBlocks = 100'000;
constexpr std::uint32_t kBalanceSeeds = 40;
constexpr std::array<double, 2> kMeanNs = {20'000, 60'000};

struct Times {
  std::array<double, 2> real{};      // by site, of all blocks
  std::array<double, 2> weighted{};  // what the samples stand for by their weight alone
  std::array<double, 2> balanced{};
};

double sum_of(const std::array<double, 2>& times) { return times[0] + times[1]; }

Times times_of_thread(std::uint32_t seed) {
  std::mt19937 random(seed);
  std::exponential_distribution<double> around(1);
  profd_block_draw draw{};
  UnsampledBalance balance;
  BlockTerm unsampled;
  Times times;
  for (std::size_t i = 0; i < kBlocks; ++i) {
    const std::size_t site = random() % 2;
    double ns = 5'000 + kMeanNs[site] * around(random);
    std::uint32_t chance = kChance;
    if (!profd_is_chosen(&draw, &chance, static_cast<std::uint32_t>(random()))) {
      unsampled += {.blocks = 1, .ns = static_cast<std::uint64_t>(ns)};
      times.real[site] += ns;
      continue;
    }
    ns += kWalkNs;
    times.real[site] += ns;
    const double beyond = std::ldexp(1.0, 32) / chance - 1;
    balance.add(unsampled);
    unsampled = {};
    times.weighted[site] += ns + beyond * ns;
    times.balanced[site] += ns + beyond * ns * balance.take(beyond, beyond * ns).ns;
  }
  return times;
}

// Finds a balance that is not kept, and one that is kept in number alone.
TEST(UnsampledBalanceTest, TheTotalOfAThreadIsTheKernels) {
  double weighted = 0;
  for (std::uint32_t seed = 0; seed < kBalanceSeeds; ++seed) {
    const Times times = times_of_thread(seed);
    const double real = sum_of(times.real);
    EXPECT_NEAR(sum_of(times.balanced), real, 0.01 * real) << seed;
    weighted += sum_of(times.weighted) / real / kBalanceSeeds;
  }
  EXPECT_GT(weighted, 1.08);  // which is why there is a balance
}

// Six microseconds more of each sample shift the share of the site with shorter blocks by 0.026.
TEST(UnsampledBalanceTest, SitesKeepTheirShares) {
  double share = 0;
  double real = 0;
  for (std::uint32_t seed = 0; seed < kBalanceSeeds; ++seed) {
    const Times times = times_of_thread(seed);
    share += times.balanced[1] / sum_of(times.balanced) / kBalanceSeeds;
    real += times.real[1] / sum_of(times.real) / kBalanceSeeds;
  }
  EXPECT_NEAR(share, real, 0.04);
}

TEST(UnsampledBalanceTest, AFactorIsBounded) {
  UnsampledBalance owed;
  owed.add({.blocks = 1'000'000, .ns = 1'000'000'000});
  const auto most = owed.take(kWeight - 1, 1'000);
  EXPECT_EQ(most.blocks, 2);
  EXPECT_EQ(most.ns, 2);
  UnsampledBalance ahead;
  EXPECT_EQ(ahead.take(1'000'000, 1'000'000'000).ns, 1);
  const auto least = ahead.take(10, 1'000);
  EXPECT_EQ(least.blocks, 0.5);
  EXPECT_EQ(least.ns, 0.5);
}

}  // namespace
}  // namespace profd
