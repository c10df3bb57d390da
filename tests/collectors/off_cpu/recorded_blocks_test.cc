// The estimator over blocks that perf recorded on real hosts (tests/data/switches/record), without
// a kernel: for each file, what a profile says is right in the mean of 100 seeds.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/collectors/off_cpu/simulated_blocks.h"

namespace profd {
namespace {

using test::SimulatedBlocks;
using test::TraceBlock;

constexpr std::uint32_t kRecordedSeeds = 100;
constexpr std::uint32_t kRecordedGroups = 5;  // of threads

// So few tokens that nearly all blocks are chosen by chance.
constexpr profd_block_rate kScarceWalks{.long_ns = PROFD_BLOCK_LONG_NS,
                                        .scale = 20'000,
                                        .walks_per_second = 50,
                                        .burst = 5,
                                        .new_sites_per_second = 5};

std::vector<std::filesystem::path> recorded_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(PROFD_SWITCH_TRACES)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

std::vector<TraceBlock> read_recorded(const std::filesystem::path& path) {
  constexpr std::uint64_t kFirstNs = 1'000'000'000;
  std::vector<TraceBlock> blocks;
  std::ifstream file(path);
  TraceBlock block;
  while (file >> block.start_ns >> block.ns >> block.thread >> block.cpu) {
    block.start_ns += kFirstNs;
    block.site = block.thread;
    block.group = block.thread % kRecordedGroups;
    blocks.push_back(block);
  }
  return blocks;
}

// Finds a weight that is not 1 / chance, a history that depends on what was chosen, and a long
// block that counts by weight: on a real host each of them shifts a sum by more than its spread.
TEST(RecordedBlocksTest, TheTimesOfRealHostsAreRightInTheMean) {
  const auto files = recorded_files();
  ASSERT_FALSE(files.empty()) << "tests/data/switches/record makes some";
  for (const std::filesystem::path& path : files) {
    SCOPED_TRACE(path.filename().string());
    const SimulatedBlocks simulated(read_recorded(path), kScarceWalks);
    ASSERT_GT(simulated.blocks().size(), 1000U);
    double all = 0;
    double mean_of_all = 0;
    double variance_of_all = 0;
    const auto means = test::mean_times(simulated, kRecordedSeeds);
    for (const auto& [group, time] : simulated.true_times()) {
      EXPECT_NEAR(means.at(group).ns, time, 4 * means.at(group).error + 1) << "group " << group;
      all += time;
      mean_of_all += means.at(group).ns;
      variance_of_all += means.at(group).error * means.at(group).error;
    }
    EXPECT_NEAR(mean_of_all, all, 3 * std::sqrt(variance_of_all) + kRecordedGroups);
  }
}

// What a walk costs is bounded by the tokens, and by one block in 1,024 where the scale is 0.
TEST(RecordedBlocksTest, TheWalksOfRealHostsAreBounded) {
  for (const std::filesystem::path& path : recorded_files()) {
    SCOPED_TRACE(path.filename().string());
    profd_block_rate rate = kScarceWalks;
    rate.scale = 0;
    const std::vector<TraceBlock> blocks = read_recorded(path);
    ASSERT_FALSE(blocks.empty());
    unsigned cpus = 0;
    for (const TraceBlock& block : blocks) cpus = std::max(cpus, block.cpu + 1);
    const std::uint64_t ns = blocks.back().start_ns - blocks.front().start_ns;
    const double seconds = static_cast<double>(ns) / 1e9;
    const double by_token = cpus * ((rate.walks_per_second + rate.new_sites_per_second) * seconds +
                                    rate.burst + rate.new_sites_per_second);
    const double by_chance = static_cast<double>(blocks.size()) / 1024;
    const SimulatedBlocks simulated(blocks, rate);
    EXPECT_LE(static_cast<double>(simulated.estimate(1).chosen),
              by_token + by_chance + 4 * std::sqrt(by_chance));
  }
}

}  // namespace
}  // namespace profd
