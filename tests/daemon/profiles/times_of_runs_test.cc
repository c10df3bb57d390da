#include "daemon/profiles/times_of_runs.h"

#include <cstdint>

#include <gtest/gtest.h>

#include "tests/daemon/samples/synthetic_sample.h"

namespace profd {
namespace {

void add_blocks(StackTable& table, std::uint64_t address, std::uint64_t count, std::uint64_t ns) {
  test::SyntheticSample sample(test::kProcess);
  sample.leaf(address).block(PROFD_BLOCK_SLEEPING, ns, count);
  const SampleView view = sample.view();
  table.add(view, StackTable::hash_of(view), test::kNoLimit);
}

// Finds: a rest of a division that no run has, or that each stack's first run has.
TEST(TimesOfRuns, TheRunsOfAStackHaveAllOfItsTime) {
  StackTable table;
  add_blocks(table, 1, 3, 100);
  add_blocks(table, 2, 2, 7);
  TimesOfRuns times(table);
  EXPECT_EQ(times.take({.stack = 0, .count = 1}), 33U);
  EXPECT_EQ(times.take({.stack = 0, .count = 1}), 33U);
  EXPECT_EQ(times.take({.stack = 0, .count = 1}), 34U);
  EXPECT_EQ(times.take({.stack = 1, .count = 2}), 7U);
}

// A day of a thousand threads: the product of its time and its blocks has 77 bits.
TEST(TimesOfRuns, LargeTimesDoNotOverflow) {
  constexpr std::uint64_t kNs = 86'400'000'000'000'000;
  constexpr std::uint64_t kBlocks = 2'000'000;
  StackTable table;
  add_blocks(table, 1, kBlocks, kNs);
  TimesOfRuns times(table);
  EXPECT_EQ(times.take({.stack = 0, .count = kBlocks / 4}), kNs / 4);
  EXPECT_EQ(times.take({.stack = 0, .count = kBlocks / 4}), kNs / 4);
  EXPECT_EQ(times.take({.stack = 0, .count = kBlocks / 2}), kNs / 2);
}

TEST(TimesOfRuns, AStackWithoutTimeGivesNone) {
  StackTable table;
  add_blocks(table, 1, 3, 0);
  TimesOfRuns times(table);
  EXPECT_EQ(times.take({.stack = 0, .count = 3}), 0U);
}

}  // namespace
}  // namespace profd
