// The choice of blocks together with their estimate, for the classes of waits that services have:
// each class's time is right in the mean, stalls are never lost, and walks are bounded.

#include "tests/collectors/off_cpu/simulated_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace profd {
namespace {

using test::SimulatedBlocks;
using test::TraceBlock;

constexpr std::uint64_t kUsNs = 1000;
constexpr std::uint64_t kMsNs = 1'000'000;
constexpr std::uint64_t kSecondNs = 1'000'000'000;
constexpr std::uint64_t kTraceStartNs = 100 * kSecondNs;
constexpr std::uint32_t kSeedCount = 100;
// By which a block of the mean duration T is certain.
constexpr std::uint32_t kScaleOfCertain = 439'804;

constexpr profd_block_rate rate_with_scale(std::uint32_t scale) {
  return {.long_ns = PROFD_BLOCK_LONG_NS,
          .scale = scale,
          .walks_per_second = PROFD_WALKS_PER_SECOND,
          .burst = PROFD_WALK_BURST,
          .new_sites_per_second = PROFD_NEW_SITES_PER_SECOND};
}

enum WaitClass : std::uint32_t { kShortWaits, kIdlePool, kStalling, kInputOutput };

// Threads that are blocked again and again for about `ns`, with `pause_ns` between.
struct Waiters {
  std::uint32_t group;
  unsigned count;
  std::uint64_t ns;
  std::uint64_t pause_ns;
  std::uint32_t uid = 0;
};

class Trace {
 public:
  explicit Trace(std::uint64_t duration_ns) : end_ns_(kTraceStartNs + duration_ns) {}

  void add(const Waiters& waiters) {
    for (unsigned i = 0; i < waiters.count; ++i) add_thread(waiters);
  }

  // Two stalls among the blocks of the last thread, at the usual place of it.
  void add_stalls(std::uint64_t stall_ns) {
    const std::uint64_t third = (end_ns_ - kTraceStartNs) / 3;
    for (const std::uint64_t at : {kTraceStartNs + third, kTraceStartNs + 2 * third}) {
      const auto block = std::ranges::find_if(blocks_, [&](const TraceBlock& each) {
        return each.thread == threads_ && each.start_ns >= at;
      });
      if (block != blocks_.end()) block->ns = stall_ns;
    }
  }

  [[nodiscard]] std::vector<TraceBlock> blocks() {
    std::ranges::stable_sort(blocks_, {}, &TraceBlock::start_ns);
    return blocks_;
  }

 private:
  void add_thread(const Waiters& waiters) {
    ++threads_;
    std::exponential_distribution<double> around(1);
    std::uint64_t at = kTraceStartNs + threads_ * 17 * kUsNs;
    while (at < end_ns_) {
      const double times = 0.5 + 0.5 * around(random_);
      const auto ns = static_cast<std::uint64_t>(times * static_cast<double>(waiters.ns)) + 1;
      blocks_.push_back({.start_ns = at,
                         .ns = ns,
                         .thread = threads_,
                         .site = threads_,
                         .group = waiters.group,
                         .uid = waiters.uid,
                         .cpu = threads_ % 2});
      at += ns + waiters.pause_ns;
    }
  }

  std::uint64_t end_ns_;
  std::uint32_t threads_ = 0;
  std::mt19937_64 random_{1};
  std::vector<TraceBlock> blocks_;
};

std::vector<TraceBlock> blocks_of_services() {
  Trace trace(kSecondNs);
  trace.add({.group = kShortWaits, .count = 8, .ns = 40 * kUsNs, .pause_ns = 10 * kUsNs});
  trace.add({.group = kIdlePool, .count = 50, .ns = 200 * kMsNs, .pause_ns = 50 * kUsNs});
  trace.add({.group = kInputOutput, .count = 20, .ns = 3 * kMsNs, .pause_ns = 500 * kUsNs});
  trace.add({.group = kStalling, .count = 1, .ns = 20 * kUsNs, .pause_ns = kMsNs});
  trace.add_stalls(3 * kSecondNs);
  return trace.blocks();
}

// A weight that is not 1 / chance, for one of the rules, makes one of the classes too large or too
// small by it.
void expect_right_in_the_mean(const SimulatedBlocks& simulated) {
  const auto means = test::mean_times(simulated, kSeedCount);
  for (const auto& [group, time] : simulated.true_times()) {
    EXPECT_NEAR(means.at(group).ns, time, 3 * means.at(group).error + 1) << "group " << group;
  }
}

TEST(SimulatedBlocksTest, EachClassOfWaitsIsRightInTheMean) {
  const std::vector<TraceBlock> blocks = blocks_of_services();
  expect_right_in_the_mean(SimulatedBlocks(blocks, rate_with_scale(kScaleOfCertain)));
  expect_right_in_the_mean(SimulatedBlocks(blocks, rate_with_scale(kScaleOfCertain / 8)));
}

// Blocks of one duration with half of it between; those of a thread are at its sites in turn, and
// of the group of its site.
std::vector<TraceBlock> regular_blocks(std::uint32_t threads, std::uint32_t sites, std::uint64_t ns,
                                       std::uint64_t duration_ns) {
  std::vector<TraceBlock> blocks;
  for (std::uint32_t number = 0; number * (ns + ns / 2) < duration_ns; ++number) {
    for (std::uint32_t thread = 1; thread <= threads; ++thread) {
      const std::uint32_t site = (thread - 1) * sites + number % sites + 1;
      blocks.push_back({.start_ns = kTraceStartNs + number * (ns + ns / 2) + thread,
                        .ns = ns,
                        .thread = thread,
                        .site = site,
                        .group = site});
    }
  }
  return blocks;
}

void expect_near_for_each_seed(const SimulatedBlocks& simulated, double part) {
  const auto times = simulated.true_times();
  for (std::uint32_t seed = 0; seed < kSeedCount; ++seed) {
    const auto estimated = simulated.estimate(seed);
    ASSERT_LT(estimated.chosen, 0.7 * static_cast<double>(simulated.blocks().size()));
    for (const auto& [group, time] : times) {
      EXPECT_NEAR(estimated.times.at(group), time, part * time) << seed << ", group " << group;
    }
  }
}

// A draw for each block by itself would shift the total of a thread by several parts in a hundred.
TEST(SimulatedBlocksTest, TheTotalOfEachThreadIsWithinOnePercent) {
  const auto blocks = regular_blocks(4, 1, 200 * kUsNs, 5 * kSecondNs);
  expect_near_for_each_seed(SimulatedBlocks(blocks, rate_with_scale(kScaleOfCertain)), 0.01);
}

// A fixed distance between chosen blocks would find one of the sites alone.
TEST(SimulatedBlocksTest, SitesThatTakeTurnsHaveTheirShares) {
  const auto blocks = regular_blocks(1, 2, 100 * kUsNs, 10 * kSecondNs);
  expect_near_for_each_seed(SimulatedBlocks(blocks, rate_with_scale(kScaleOfCertain / 8)), 0.5);
}

// Even at the smallest chances, and at the usual place of the thread.
TEST(SimulatedBlocksTest, NoSeedLosesAStall) {
  const SimulatedBlocks simulated(blocks_of_services(), rate_with_scale(0));
  const double of_pool = simulated.true_times().at(kIdlePool);
  for (std::uint32_t seed = 0; seed < kSeedCount; ++seed) {
    const auto times = simulated.estimate(seed).times;
    EXPECT_GE(times.at(kStalling), 2.0 * 3 * kSecondNs) << seed;
    EXPECT_EQ(times.at(kIdlePool), of_pool) << seed;
  }
}

// A million blocks a second: the tokens of both CPUs, and one of 1,024 of the rest.
TEST(SimulatedBlocksTest, WalksAreBoundedAtAMillionSwitchesASecond) {
  Trace trace(kSecondNs);
  trace.add({.group = kShortWaits, .count = 20, .ns = 15 * kUsNs, .pause_ns = 5 * kUsNs});
  const SimulatedBlocks simulated(trace.blocks(), rate_with_scale(0));
  const auto blocks = static_cast<double>(simulated.blocks().size());
  ASSERT_GT(blocks, 900'000);
  constexpr double kCpus = 2;
  constexpr double kNewSites = kCpus * PROFD_NEW_SITES_PER_SECOND;
  const double by_token = kCpus * (PROFD_WALK_BURST + PROFD_WALKS_PER_SECOND) + kNewSites;
  const double by_chance = blocks / 1024;
  const auto chosen = static_cast<double>(simulated.estimate(1).chosen);
  EXPECT_LE(chosen, by_token + by_chance + 4 * std::sqrt(by_chance));
  EXPECT_GE(chosen, 0.8 * (by_token + by_chance - kNewSites));  // no thread has a new site
}

// Up to the rate of the tokens everything is exact.
TEST(SimulatedBlocksTest, FewBlocksAreAllCertain) {
  Trace trace(3 * kSecondNs);
  trace.add({.group = kInputOutput, .count = 10, .ns = 4 * kMsNs, .pause_ns = kMsNs});
  const SimulatedBlocks simulated(trace.blocks(), rate_with_scale(0));
  EXPECT_EQ(simulated.estimate(1).chosen, simulated.blocks().size());
  EXPECT_EQ(simulated.estimate(1).times, simulated.true_times());
}

// A user's storm on both CPUs: without shares it would take every token before root's thread.
TEST(SimulatedBlocksTest, AStormOfAUserLeavesTheBlocksOfRootCertain) {
  Trace trace(kSecondNs);
  trace.add(
      {.group = kShortWaits, .count = 8, .ns = 15 * kUsNs, .pause_ns = 5 * kUsNs, .uid = 1000});
  trace.add({.group = kInputOutput, .count = 4, .ns = 8 * kMsNs, .pause_ns = 2 * kMsNs});
  const SimulatedBlocks simulated(trace.blocks(), rate_with_scale(0));
  std::uint64_t certain_of_user = 0;
  for (std::size_t i = 0; i < simulated.blocks().size(); ++i) {
    const bool is_certain = simulated.chance(i) == PROFD_CERTAIN;
    if (simulated.blocks()[i].uid == 0) {
      EXPECT_TRUE(is_certain) << i;
    } else {
      certain_of_user += is_certain ? 1 : 0;
    }
  }
  EXPECT_GT(certain_of_user, 1000U);  // what root does not need is not kept from users
}

}  // namespace
}  // namespace profd
