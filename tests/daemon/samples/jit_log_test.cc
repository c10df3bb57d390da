#include "daemon/samples/jit_log.h"

#include <cstdint>
#include <map>
#include <utility>

#include <gmock/gmock.h>

namespace profd {
namespace {

using testing::ElementsAre;

// Meanings change at multiples of `every_ns`.
JitLog::MeansTheSame changing(std::uint64_t every_ns) {
  return [every_ns](std::uint32_t, std::uint64_t a, std::uint64_t b) {
    return a / every_ns == b / every_ns;
  };
}

std::uint64_t samples_of(const JitLog& log) {
  std::uint64_t samples = 0;
  for (const JitLog::Entry& entry : log.entries()) samples += entry.count;
  return samples;
}

TEST(JitLog, SplitsAStackWhereItsMeaningChanges) {
  JitLog log;
  for (const std::uint64_t time : {31, 5, 12, 18, 39, 11}) log.add(0, time);
  log.sort();
  std::vector<std::pair<std::uint64_t, std::size_t>> runs;
  std::span<const JitLog::Entry> left = log.entries();
  while (!left.empty()) {
    const std::size_t length = run_length(left, changing(10));
    runs.emplace_back(left.front().time_ns, length);
    left = left.subspan(length);
  }
  EXPECT_THAT(runs, ElementsAre(std::pair(5U, 1U), std::pair(11U, 3U), std::pair(31U, 2U)));
}

TEST(JitLog, ComparesLittleWhereNothingChanged) {
  JitLog log;
  for (std::uint64_t time = 0; time < 100'000; ++time) log.add(0, time);
  std::size_t asked = 0;
  const JitLog::MeansTheSame same = [&asked](auto, auto, auto) { return ++asked > 0; };
  EXPECT_EQ(run_length(log.entries(), same), log.entries().size());
  EXPECT_EQ(asked, 1U);
}

// Finds: a count that is cut without a word.
TEST(JitLog, SamplesThatAnEntryCannotHoldHaveNoTime) {
  JitLog log;
  log.add(0, 5, 3);
  log.add(1, 6, (std::uint64_t{1} << 32) + 9);
  ASSERT_EQ(log.entries().size(), 2U);
  EXPECT_EQ(log.entries()[0].count, 3U);
  EXPECT_EQ(log.entries()[1].count, 0xffff'ffffU);
  EXPECT_EQ(log.time_dropped(), 10U);
}

TEST(JitLog, ComparesNothingForOneEntry) {
  JitLog log;
  log.add(0, 1);
  std::size_t asked = 0;
  const JitLog::MeansTheSame same = [&asked](auto, auto, auto) { return ++asked > 0; };
  EXPECT_EQ(run_length(log.entries(), same), 1U);
  EXPECT_EQ(asked, 0U);
}

TEST(JitLog, GivesEachStackOneTimeWhereNothingIsCompared) {
  JitLog log;
  for (std::uint64_t time = 0; !log.is_full(); ++time) {
    log.add(static_cast<std::uint32_t>(time % 7), time);
  }
  const auto nothing = [](auto, auto, auto) { return false; };
  EXPECT_EQ(run_length(log.entries(), nothing), 1U);
  log.fold_oldest_half(nothing);
  EXPECT_EQ(log.entries().size(), JitLog::kMaxEntries / 2 + 7);
  EXPECT_EQ(samples_of(log), JitLog::kMaxEntries);
  EXPECT_EQ(log.time_dropped(), JitLog::kMaxEntries / 2);
}

TEST(JitLog, FoldsEntriesOfOneMeaningAndKeepsTheirTimes) {
  constexpr std::uint64_t kChange = 1000;
  JitLog log;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint64_t> expected;
  std::uint64_t time = 0;
  std::uint64_t added = 0;
  for (int folds = 0; folds < 5; ++folds) {
    while (!log.is_full()) {
      const auto stack = static_cast<std::uint32_t>(time % 7);
      log.add(stack, time);
      ++expected[{stack, time / kChange}];
      ++time;
      ++added;
    }
    log.fold_oldest_half(changing(kChange));
    EXPECT_LE(log.entries().size(), JitLog::kMaxEntries * 7 / 8);
  }
  EXPECT_EQ(samples_of(log), added);
  EXPECT_EQ(log.time_dropped(), 0U);
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint64_t> found;
  for (const JitLog::Entry& entry : log.entries()) {
    found[{entry.stack, entry.time_ns / kChange}] += entry.count;
  }
  EXPECT_EQ(found, expected);
}

TEST(JitLog, StaysLimitedWhereEverythingChangesAndCountsDroppedTimes) {
  JitLog log;
  std::uint64_t time = 0;
  for (int folds = 0; folds < 5; ++folds) {
    for (; !log.is_full(); ++time) log.add(static_cast<std::uint32_t>(time % 3), time);
    log.fold_oldest_half(changing(1));
    EXPECT_LE(log.entries().size(), JitLog::kMaxEntries * 7 / 8);
  }
  EXPECT_EQ(samples_of(log), time);
  EXPECT_GT(log.time_dropped(), 0U);
}

TEST(JitLog, DropsTheTimesOfTooManyStacks) {
  JitLog log;
  std::uint64_t time = 0;
  for (; !log.is_full(); ++time) log.add(static_cast<std::uint32_t>(time), time);
  log.fold_oldest_half(changing(1));
  EXPECT_LE(log.entries().size(), JitLog::kMaxEntries * 7 / 8);
  EXPECT_EQ(samples_of(log) + log.time_dropped(), time);
}

}  // namespace
}  // namespace profd
