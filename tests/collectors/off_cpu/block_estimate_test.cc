// The estimator: some blocks by hand, and its sums, which are right in the mean for any chances.

#include "collectors/off_cpu/block_estimate.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "collectors/off_cpu/block_ledger.h"

namespace profd {
namespace {

constexpr std::uint64_t kLongNs = 10'000'000;
constexpr std::uint32_t kHalf = 1U << 31;
constexpr std::uint32_t kThird = 1'431'655'765;  // (2^32 - 1) / 3
constexpr std::uint32_t kSmallest = 1U << 22;    // 1/1024

struct EstimateCase {
  const char* name;
  std::uint64_t ns;          // of the whole block
  std::uint64_t counted_ns;  // its first part
  std::optional<std::uint32_t> chance;
  std::optional<BlockEstimate> expected;
};

class BlockEstimateTest : public testing::TestWithParam<EstimateCase> {};

TEST_P(BlockEstimateTest, IsAsByHand) {
  const EstimateCase& row = GetParam();
  BlockEstimator estimator(kLongNs);
  const auto estimate =
      estimator.estimate({.start_ns = 100, .end_ns = 100 + row.ns},
                         {.start_ns = 100, .end_ns = 100 + row.counted_ns}, row.chance);
  ASSERT_EQ(estimate.has_value(), row.expected.has_value());
  if (!estimate) return;
  EXPECT_EQ(estimate->blocks, row.expected->blocks);
  EXPECT_EQ(estimate->ns, row.expected->ns);
}

INSTANTIATE_TEST_SUITE_P(
    Blocks, BlockEstimateTest,
    testing::Values(
        EstimateCase{"CertainIsItself", 40'000, 40'000, 0, BlockEstimate{1, 40'000}},
        EstimateCase{"HalfStandsForTwo", 40'000, 40'000, kHalf, BlockEstimate{2, 80'000}},
        EstimateCase{"SmallestStandsFor1024", 20'000, 20'000, kSmallest,
                     BlockEstimate{1024, 20'480'000}},
        EstimateCase{"LongIsItselfWhateverItsChance", kLongNs, kLongNs, kSmallest,
                     BlockEstimate{1, kLongNs}},
        EstimateCase{"JustNotLongHasItsWeight", kLongNs - 1, kLongNs - 1, kHalf,
                     BlockEstimate{2, 2 * (kLongNs - 1)}},
        EstimateCase{"LongThatWasNotChosen", kLongNs, kLongNs, std::nullopt,
                     BlockEstimate{1, kLongNs}},
        EstimateCase{"ShortThatWasNotChosen", kLongNs - 1, kLongNs - 1, std::nullopt, std::nullopt},
        // The session has less than T of it, and still it is a long block.
        EstimateCase{"PartOfALongOne", kLongNs, 1000, kHalf, BlockEstimate{1, 1000}},
        EstimateCase{"PartOfAShortOne", 40'000, 1000, kHalf, BlockEstimate{2, 2000}},
        EstimateCase{"NothingOfACertainOne", 40'000, 0, 0, BlockEstimate{1, 0}}),
    [](const auto& row) { return std::string(row.param.name); });

// Finds remainders that are dropped: a third is 3.0000000007 blocks.
TEST(BlockEstimator, CarriesWhatRoundingLeaves) {
  BlockEstimator estimator(kLongNs);
  constexpr std::uint32_t kChance = 3'000'000'000;  // 1.4316557653 blocks
  BlockTerm sum;
  for (int i = 0; i < 10'000; ++i) {
    const auto estimate =
        estimator.estimate({.start_ns = 5, .end_ns = 12}, {.start_ns = 5, .end_ns = 12}, kChance);
    ASSERT_TRUE(estimate);
    sum += {.blocks = estimate->blocks, .ns = estimate->ns};
  }
  EXPECT_EQ(sum.blocks, 14'316U);  // 14,316.557653
  EXPECT_EQ(sum.ns, 100'215U);     // 100,215.903571
}

TEST(BlockEstimator, AThirdIsThree) {
  BlockEstimator estimator(kLongNs);
  for (int i = 0; i < 1000; ++i) {
    const auto estimate =
        estimator.estimate({.start_ns = 0, .end_ns = 50}, {.start_ns = 0, .end_ns = 50}, kThird);
    ASSERT_TRUE(estimate);
    EXPECT_EQ(estimate->blocks, 3U);
    EXPECT_EQ(estimate->ns, 150U);
  }
}

// The largest product that the estimator makes.
TEST(BlockEstimator, FourSecondsFit) {
  constexpr std::uint64_t kFourSecondsNs = 4'000'000'000;
  BlockEstimator estimator(kFourSecondsNs);
  const BlockSpan block{.start_ns = 0, .end_ns = kFourSecondsNs - 1};
  const auto estimate = estimator.estimate(block, block, kSmallest);
  ASSERT_TRUE(estimate);
  EXPECT_EQ(estimate->ns, 1024 * (kFourSecondsNs - 1));
}

TEST(BlockSpan, WithinIsThePartThatLiesInBoth) {
  const BlockSpan session{.start_ns = 100, .end_ns = 200};
  EXPECT_EQ((BlockSpan{.start_ns = 50, .end_ns = 150}.within(session).ns()), 50U);
  EXPECT_EQ((BlockSpan{.start_ns = 50, .end_ns = 250}.within(session).ns()), 100U);
  EXPECT_EQ((BlockSpan{.start_ns = 150, .end_ns = 250}.within(session).ns()), 50U);
  EXPECT_EQ((BlockSpan{.start_ns = 10, .end_ns = 90}.within(session).ns()), 0U);
  EXPECT_EQ((BlockSpan{.start_ns = 210, .end_ns = 290}.within(session).ns()), 0U);
}

// Blocks of some us to some 10 ms, each with a chance of its own, over 100 seeds. Finds a weight
// for long blocks, a choice of the long ones by the counted part, and a bias of 4 %.
TEST(BlockEstimator, SumsAreRightInTheMean) {
  struct Simulated {
    std::uint64_t ns;
    std::uint64_t counted_ns;
    std::uint32_t chance;
  };
  std::vector<Simulated> blocks;
  std::mt19937_64 source(1);
  std::lognormal_distribution<double> lengths(12.0, 1.5);  // a median of 160 us
  std::uniform_int_distribution<std::uint32_t> chances(1, UINT32_MAX);
  constexpr std::uint32_t kSixteenth = 1U << 28;
  double true_ns = 0;
  constexpr std::size_t kBlocks = 4000;
  blocks.reserve(kBlocks);
  for (std::size_t i = 0; i < kBlocks; ++i) {
    const auto ns = static_cast<std::uint64_t>(lengths(source)) + 1;
    blocks.push_back({.ns = ns,
                      .counted_ns = i % 10 == 0 ? ns / 3 : ns,
                      .chance = (chances(source) >> (i % 4)) | kSixteenth});
    true_ns += static_cast<double>(blocks.back().counted_ns);
  }
  double sum_of_blocks = 0;
  double sum_of_ns = 0;
  double squares_of_ns = 0;
  constexpr int kSeeds = 100;
  for (int seed = 0; seed < kSeeds; ++seed) {
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    BlockEstimator estimator(kLongNs);
    BlockTerm sum;
    for (const Simulated& block : blocks) {
      const bool is_chosen = static_cast<std::uint32_t>(random()) < block.chance;
      const auto estimate = estimator.estimate(
          {.start_ns = 0, .end_ns = block.ns}, {.start_ns = 0, .end_ns = block.counted_ns},
          is_chosen ? std::optional(block.chance) : std::nullopt);
      if (estimate) sum += {.blocks = estimate->blocks, .ns = estimate->ns};
    }
    sum_of_blocks += static_cast<double>(sum.blocks);
    sum_of_ns += static_cast<double>(sum.ns);
    squares_of_ns += std::pow(static_cast<double>(sum.ns) - true_ns, 2);
  }
  const double error = std::sqrt(squares_of_ns) / kSeeds;  // of the mean
  EXPECT_NEAR(sum_of_ns / kSeeds, true_ns, 4 * error);
  EXPECT_LT(error, true_ns / 50);
  EXPECT_NEAR(sum_of_blocks / kSeeds, kBlocks, kBlocks / 50.0);
}

}  // namespace
}  // namespace profd
