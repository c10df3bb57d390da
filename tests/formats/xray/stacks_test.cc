#include "formats/xray/stacks.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/formats/xray/traces.h"

namespace profd::xray {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

constexpr ThreadId kThread{10, 11};

// "+1" enters function 1, "-1" leaves it, "~1" leaves it by a tail call; a tick each.
std::string records_of(const std::string& calls, std::uint64_t ticks, Format format = {}) {
  Writer writer(format);
  writer.preamble({kThread.process, kThread.thread, 1'000, ticks, 0});
  std::uint32_t delta = 0;
  for (std::size_t at = 0; at + 1 < calls.size(); at += 3) {
    const Action action = calls[at] == '+'   ? Action::kEnter
                          : calls[at] == '-' ? Action::kExit
                                             : Action::kTailExit;
    writer.function(action, static_cast<std::uint32_t>(calls[at + 1] - '0'), delta);
    delta = 1;
  }
  return writer.take_records();
}

Measured measured(const std::vector<std::string>& buffers) {
  Stacks stacks({});
  for (const std::string& buffer : buffers) stacks.add(kThread, buffer);
  return stacks.finish();
}

Stacked stacks_of(const std::string& calls) {
  return stacked(measured({records_of(calls, 100)}).tree);
}

TEST(XrayStacks, TimeIsTheInnermostCalls) {
  EXPECT_THAT(stacks_of("+1 +2 -2 +2 +3 -3 -2 -1"),
              ElementsAre(Pair("1", StackSums{1, 3}), Pair("1;2", StackSums{2, 3}),
                          Pair("1;2;3", StackSums{1, 1})));
}

TEST(XrayStacks, EachRecursiveCallIsAFrame) {
  EXPECT_THAT(stacks_of("+1 +1 +1 -1 -1 -1"),
              ElementsAre(Pair("1", StackSums{1, 2}), Pair("1;1", StackSums{1, 2}),
                          Pair("1;1;1", StackSums{1, 1})));
}

TEST(XrayStacks, TheFunctionAfterATailExitIsACalleeOfTheCaller) {
  EXPECT_THAT(stacks_of("+8 +7 ~7 +6 -6 -8"),
              ElementsAre(Pair("8", StackSums{1, 3}), Pair("8;6", StackSums{1, 1}),
                          Pair("8;7", StackSums{1, 1})));
}

TEST(XrayStacks, AnOuterExitEndsCallsThatAnExceptionLeft) {
  const Measured all = measured({records_of("+1 +2 +3 -1 +4 -4", 100)});
  EXPECT_THAT(stacked(all.tree),
              ElementsAre(Pair("1", StackSums{1, 1}), Pair("1;2", StackSums{1, 1}),
                          Pair("1;2;3", StackSums{1, 1}), Pair("4", StackSums{1, 1})));
  EXPECT_EQ(all.report[Issue::kImpliedExit], 2U);
}

TEST(XrayStacks, AnExitWithoutAnEntryBecomesTheCallerOfAllBefore) {
  const Measured all = measured({records_of("+2 -2 +3 -3 -1 +4 -4 -0", 100)});
  EXPECT_THAT(stacked(all.tree),
              ElementsAre(Pair("0", StackSums{0, 2}), Pair("0;1", StackSums{0, 2}),
                          Pair("0;1;2", StackSums{1, 1}), Pair("0;1;3", StackSums{1, 1}),
                          Pair("0;4", StackSums{1, 1})));
  EXPECT_EQ(all.report[Issue::kLateRoot], 2U);
}

TEST(XrayStacks, ACallOfALateRootJoinsIt) {
  EXPECT_THAT(stacks_of("+2 -2 -1 +1 +2 -2 -1"),
              ElementsAre(Pair("1", StackSums{1, 3}), Pair("1;2", StackSums{2, 2})));
}

TEST(XrayStacks, ALateRootEndsCallsThatWereUnwoundInIt) {
  const Measured all = measured({records_of("+2 +3 -1 +4 -4", 100)});
  EXPECT_THAT(stacked(all.tree),
              ElementsAre(Pair("1;2", StackSums{1, 1}), Pair("1;2;3", StackSums{1, 1}),
                          Pair("4", StackSums{1, 1})));
  EXPECT_EQ(all.report[Issue::kImpliedExit], 2U);
  EXPECT_EQ(all.report[Issue::kLateRoot], 1U);
}

TEST(XrayStacks, AStackContinuesInTheNextBuffer) {
  const Measured all = measured({records_of("+1 +2", 100), records_of("-2 -1", 150)});
  EXPECT_THAT(stacked(all.tree),
              ElementsAre(Pair("1", StackSums{1, 2}), Pair("1;2", StackSums{1, 49})));
  EXPECT_EQ(all.report.buffers, 2U);
}

TEST(XrayStacks, AGapEndsAStackAndTheNextOneBeginsEmpty) {
  Stacks stacks({});
  stacks.add(kThread, records_of("+1 +2", 100));
  stacks.gap(kThread, 17);
  stacks.add(kThread, records_of("+3 -3 -2 -1", 1'000'000));
  const Measured all = stacks.finish();
  EXPECT_THAT(stacked(all.tree),
              ElementsAre(Pair("1", StackSums{1, 2}), Pair("1;2", StackSums{1, 1}),
                          Pair("1;2;3", StackSums{1, 1})));
  EXPECT_EQ(all.report[Issue::kGap], 1U);
  EXPECT_EQ(all.report[Issue::kLostRecords], 17U);
  EXPECT_EQ(all.report[Issue::kUnclosed], 2U);
}

TEST(XrayStacks, ThreadsHaveStacksOfTheirOwnAndAreSummed) {
  Stacks stacks({});
  for (const char* calls : {"+1 +2", "-2 -1"}) {
    for (std::int32_t thread = 0; thread < 3; ++thread) {
      stacks.add({1, thread}, records_of(calls, calls[0] == '+' ? 100 : 200));
    }
  }
  const Measured all = stacks.finish();
  EXPECT_THAT(stacked(all.tree),
              ElementsAre(Pair("1", StackSums{3, 6}), Pair("1;2", StackSums{3, 297})));
  EXPECT_EQ(all.report.threads, 3U);
}

TEST(XrayStacks, CallsOfAnEndedThreadAreKept) {
  Stacks stacks({});
  stacks.add(kThread, records_of("+1 -1", 100));
  stacks.end_thread(kThread);
  EXPECT_EQ(stacks.nodes(), 2U);  // the root and function 1
  stacks.add(kThread, records_of("+1 -1", 200));
  EXPECT_THAT(stacked(stacks.finish().tree), ElementsAre(Pair("1", StackSums{2, 2})));
}

TEST(XrayStacks, ASnapshotChangesNothing) {
  Stacks stacks({});
  stacks.add(kThread, records_of("+1 +2", 100));
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(stacked(stacks.snapshot().tree),
                ElementsAre(Pair("1", StackSums{1, 1}), Pair("1;2", StackSums{1, 0})));
  }
  stacks.add(kThread, records_of("-2 -1", 150));
  EXPECT_THAT(stacked(stacks.finish().tree),
              ElementsAre(Pair("1", StackSums{1, 2}), Pair("1;2", StackSums{1, 49})));
  EXPECT_THAT(stacked(stacks.finish().tree), ElementsAre());
}

TEST(XrayStacks, AClockThatGoesBackLosesTheTimeOfOneRecord) {
  const Measured all = measured({records_of("+1 +2", 5000), records_of("-2 -1", 150)});
  EXPECT_THAT(stacked(all.tree),
              ElementsAre(Pair("1", StackSums{1, 2}), Pair("1;2", StackSums{1, 0})));
  EXPECT_EQ(all.report[Issue::kClockStep], 1U);
}

TEST(XrayStacks, AForwardJumpOfTheClockIsUndoneWhenItReturns) {
  Writer writer({});
  writer.preamble({1, 2, 1'000, 100, 0});
  writer.function(Action::kEnter, 1, 0);
  writer.new_cpu(1, std::uint64_t{1} << 60 | 110);
  writer.function(Action::kEnter, 2, 0);
  writer.function(Action::kExit, 2, 5);
  writer.new_cpu(0, 120);
  writer.function(Action::kExit, 1, 0);
  const Measured all = measured({writer.take_records()});
  EXPECT_THAT(stacked(all.tree),
              ElementsAre(Pair("1", StackSums{1, 15}), Pair("1;2", StackSums{1, 5})));
  EXPECT_EQ(all.report[Issue::kClockStep], 1U);
}

TEST(XrayStacks, TicksThatWrapAreAbsoluteAgain) {
  Writer writer({});
  writer.preamble({1, 2, 1'000, 100, 0});
  writer.function(Action::kEnter, 1, 0);
  writer.ticks(100'000'000'000);
  writer.function(Action::kExit, 1, 7);
  EXPECT_THAT(stacked(measured({writer.take_records()}).tree),
              ElementsAre(Pair("1", StackSums{1, 99'999'999'907})));
}

TEST(XrayStacks, RecordsWithoutATimeStillCountAsCalls) {
  Writer writer({});
  writer.new_buffer(1);
  writer.function(Action::kEnter, 1, 100);
  writer.function(Action::kExit, 1, 100);
  const Measured all = measured({writer.take_records()});
  EXPECT_THAT(stacked(all.tree), ElementsAre(Pair("1", StackSums{1, 0})));
  EXPECT_EQ(all.report[Issue::kNoTime], 2U);
}

TEST(XrayStacks, MalformedBytesAreAGapOfTheirThread) {
  const Measured all =
      measured({records_of("+1 +2", 100) + std::string(24, '\x7f'), records_of("-2 -1", 150)});
  EXPECT_EQ(all.report[Issue::kMalformedBuffer], 1U);
  EXPECT_EQ(all.report[Issue::kMalformedBytes], 24U);
  EXPECT_EQ(all.report[Issue::kGap], 1U);
  EXPECT_EQ(all.report[Issue::kLateRoot], 2U);
}

TEST(XrayStacks, StacksBeyondTheLimitGiveTheirTimeToTheirCaller) {
  StacksOptions options;
  options.max_nodes = 5;  // two roots, and 1, 2, 3
  Stacks stacks(options);
  stacks.add(kThread, records_of("+1 +2 -2 +3 -3 +4 -4 -1 -9", 100));
  EXPECT_LE(stacks.nodes(), 5U);
  const Measured all = stacks.finish();
  EXPECT_THAT(stacked(all.tree),
              ElementsAre(Pair("1", StackSums{1, 5}), Pair("1;2", StackSums{1, 1}),
                          Pair("1;3", StackSums{1, 1})));
  EXPECT_EQ(all.report[Issue::kTooManyStacks], 2U);
}

TEST(XrayStacks, CallsThatAreTooDeepGiveTheirTimeToTheirCaller) {
  StacksOptions options;
  options.max_depth = 2;
  Stacks stacks(options);
  stacks.add(kThread, records_of("+1 +2 +3 +4 -4 -3 -2 -1", 100));
  const Measured all = stacks.finish();
  EXPECT_THAT(stacked(all.tree),
              ElementsAre(Pair("1", StackSums{1, 2}), Pair("1;2", StackSums{1, 5})));
  EXPECT_EQ(all.report[Issue::kTooDeep], 2U);
  EXPECT_EQ(all.report[Issue::kLateRoot], 0U);
}

TEST(XrayStacks, RecordsOfThreadsOverTheLimitAreCounted) {
  StacksOptions options;
  options.max_threads = 1;
  Stacks stacks(options);
  stacks.add({1, 1}, records_of("+1 -1", 100));
  stacks.add({1, 2}, records_of("+1 -1", 100));
  const Measured all = stacks.finish();
  EXPECT_THAT(stacked(all.tree), ElementsAre(Pair("1", StackSums{1, 1})));
  EXPECT_GT(all.report[Issue::kTooManyThreads], 0U);
}

TEST(XrayStacks, CountsWhatItRead) {
  Writer writer({});
  writer.preamble({1, 2, 1'000, 100, 0});
  writer.function(Action::kEnterWithArguments, 1, 0);
  writer.argument(5);
  writer.custom_event("c", 1);
  writer.typed_event(3, "t", 1);
  writer.function(Action::kTailExit, 1, 1);
  const Report report = measured({writer.take_records()}).report;
  EXPECT_EQ(report.entries, 1U);
  EXPECT_EQ(report.exits, 1U);
  EXPECT_EQ(report.tail_exits, 1U);
  EXPECT_EQ(report.records, 2U);
  EXPECT_EQ(report.arguments, 1U);
  EXPECT_EQ(report.custom_events, 1U);
  EXPECT_EQ(report.typed_events, 1U);
}

TEST(XrayStacks, APayloadThatReachesBeyondItsBufferIsMalformed) {
  for (const std::size_t payload : {100U, 8000U}) {
    Writer writer(Format{});
    writer.preamble({.process = 1, .thread = 1, .wall_ns = 0, .ticks = 1, .cpu = 0});
    writer.function(Action::kEnter, 1, 1);
    writer.custom_event(std::string(payload, 'x'), 1);
    const std::string whole = writer.take_records();
    Stacks stacks({});
    stacks.add({.process = 1, .thread = 1}, whole.substr(0, whole.size() - 50));
    const Report report = stacks.finish().report;
    EXPECT_EQ(report[Issue::kMalformedBuffer], 1U) << payload;
    EXPECT_EQ(report[Issue::kGap], 1U) << payload;
  }
}

TEST(XrayStacks, TheOpenCallsOfAllThreadsTogetherAreBounded) {
  StacksOptions options;
  options.max_open = 256;
  Stacks stacks(options);
  for (int thread = 1; thread <= 8; ++thread) {
    Writer writer(Format{});
    writer.preamble({.process = 1, .thread = thread, .wall_ns = 0, .ticks = 1, .cpu = 0});
    for (int i = 0; i < 64; ++i) writer.function(Action::kEnter, 1, 1);
    stacks.add({.process = 1, .thread = thread}, writer.take_records());
  }
  const Report report = stacks.finish().report;
  EXPECT_EQ(report[Issue::kTooDeep], 4U * 64);
  EXPECT_EQ(report[Issue::kUnclosed], 8U * 64);
}

}  // namespace
}  // namespace profd::xray
