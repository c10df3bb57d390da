#include "daemon/samples/time_log.h"

#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "tests/daemon/samples/synthetic_sample.h"

namespace profd {
namespace {

using test::kNoLimit;
using testing::ElementsAre;
using Ticks = std::vector<std::uint32_t>;

Ticks ticks_of(std::span<const TimeLog::Entry> entries) {
  Ticks ticks;
  for (const TimeLog::Entry& entry : entries) ticks.push_back(entry.tick);
  return ticks;
}

std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs_of(const TimeLog& log) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
  for (const TimeLog::Entry& entry : log.entries()) pairs.emplace_back(entry.stack, entry.tick);
  return pairs;
}

TEST(TimeLog, KeepsEachTimeInOrder) {
  std::mt19937 engine(5);
  const auto random = [&engine] { return static_cast<std::uint32_t>(engine()); };
  TimeLog log;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> expected;
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < 20'000; ++i) {
    const bool is_usual = i % 100 != 0;
    const std::uint32_t tick = is_usual ? i / 10 + random() % 3 : random();
    const std::uint32_t stack = is_usual ? random() % 200 : random();
    expected.emplace_back(stack, tick);
    bytes += log.add({.stack = stack, .tick = tick}, kNoLimit).value();
  }
  EXPECT_EQ(pairs_of(log), expected);
  EXPECT_LT(bytes, 20'000U * 4);
}

TEST(TimeLog, WithoutRoomChangesNothing) {
  TimeLog log;
  EXPECT_FALSE(log.add({.stack = 1, .tick = 2}, TimeLog::kFirstBlockBytes - 1));
  EXPECT_TRUE(log.entries().empty());
  EXPECT_EQ(log.add({.stack = 1, .tick = 2}, TimeLog::kFirstBlockBytes), TimeLog::kFirstBlockBytes);
  std::size_t added = 1;
  while (log.add({.stack = 1, .tick = 2}, 0)) ++added;
  EXPECT_EQ(log.entries().size(), added);
  EXPECT_GT(added, 10U);
}

TEST(TimeLog, ACopyHasWhatWasThere) {
  TimeLog log;
  for (std::uint32_t i = 0; i < 10; ++i) ASSERT_TRUE(log.add({.stack = i, .tick = i}, kNoLimit));
  const TimeLog copy = log;
  const auto before = pairs_of(copy);
  for (std::uint32_t i = 0; i < 5000; ++i) ASSERT_TRUE(log.add({.stack = 7, .tick = i}, kNoLimit));
  EXPECT_EQ(pairs_of(copy), before);
  EXPECT_EQ(log.entries().size(), 5010U);
}

TEST(TicksOfStacks, GiveTheRunsOfAStackTheirTicksInOrder) {
  TimeLog log;
  const std::vector<TimeLog::Entry> added = {{4, 9}, {2, 1}, {4, 3}, {4, 5}, {2, 0}};
  for (const TimeLog::Entry& entry : added) ASSERT_TRUE(log.add(entry, kNoLimit));
  TicksOfStacks ticks(log);
  EXPECT_THAT(ticks_of(ticks.take(4, 2)), ElementsAre(3, 5));
  EXPECT_THAT(ticks_of(ticks.take(2, 100)), ElementsAre(0, 1));
  EXPECT_THAT(ticks_of(ticks.take(4, 2)), ElementsAre(9)) << "the time of one was not kept";
  EXPECT_THAT(ticks_of(ticks.take(4, 1)), ElementsAre());
  EXPECT_THAT(ticks_of(ticks.take(3, 1)), ElementsAre());
  EXPECT_THAT(ticks_of(ticks.take(5, 1)), ElementsAre());
}

}  // namespace
}  // namespace profd
