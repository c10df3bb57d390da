#include "daemon/samples/stack_table.h"

#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "tests/daemon/samples/synthetic_sample.h"

namespace profd {
namespace {

using test::kNoLimit;
using test::kProcess;
using test::SyntheticSample;
using testing::ElementsAre;

StackTable::Added add(StackTable& table, SyntheticSample sample, std::uint64_t room = kNoLimit) {
  const SampleView view = sample.view();
  return table.add(view, StackTable::hash_of(view), room);
}

SyntheticSample plain() {
  return SyntheticSample(kProcess).kernel(0xffffffff81000001).leaf(0x1000, 5).user(0x2000, 6);
}

TEST(StackTable, CountsEqualStacksOnce) {
  StackTable table;
  EXPECT_EQ(add(table, plain()), StackTable::Added::kNew);
  EXPECT_EQ(add(table, plain()), StackTable::Added::kKnown);
  ASSERT_EQ(table.stacks().size(), 1U);
  EXPECT_EQ(table.stacks()[0].count, 2U);
}

TEST(StackTable, ReturnsTheFramesOfEachStack) {
  StackTable table;
  add(table, SyntheticSample(kProcess).leaf(0x9999));
  add(table, plain());
  const StackTable::Stack& stack = table.stacks()[1];
  EXPECT_THAT(table.kernel_frames(stack), ElementsAre(0xffffffff81000001));
  EXPECT_THAT(table.user_frames(stack),
              ElementsAre(test::frame_word(0x1000, 0, PROFD_FRAME_INTERRUPTED),
                          test::frame_word(0x2000, 1, PROFD_FRAME_POINTER)));
  EXPECT_THAT(table.mapping_ids(stack), ElementsAre(5, 6));
}

// The frames that the interpreter calls, its loop, and a signal's frame with its restorer.
TEST(StackTable, AnInterpretedFrameChangesNothingOfNativeOnes) {
  SyntheticSample sample = SyntheticSample(kProcess)
                               .user(0x1000, 5, PROFD_FRAME_ROW)
                               .interpreted(1, 7)
                               .user(0x2000, 5, PROFD_FRAME_SIGNAL)
                               .user(0x3000, 5, PROFD_FRAME_ROW)
                               .interpreted(2, 0);
  const auto words = sample.view().user_frames;
  EXPECT_EQ(kind_of_frame(words, 0), PcKind::kExact) << "its native caller is a signal's frame";
  EXPECT_EQ(kind_of_frame(words, 1), PcKind::kExact);
  EXPECT_EQ(kind_of_frame(words, 2), PcKind::kExact);
  EXPECT_EQ(kind_of_frame(words, 3), PcKind::kReturnAddress);
  EXPECT_EQ(kind_of_frame(words, 4), PcKind::kExact);
}

TEST(StackTable, KeepsDifferentStacksApart) {
  const std::vector<SyntheticSample> all = {
      plain(),
      plain().end(PROFD_END_NO_FRAME_POINTER),
      plain().context(PROFD_CONTEXT_COMPAT),
      plain().block(PROFD_BLOCK_SLEEPING, 5),
      plain().block(PROFD_BLOCK_DISK, 5),
      plain().block(PROFD_BLOCK_DISK, 5).ongoing(),
      plain().user(0x3000, 6),
      SyntheticSample(kProcess).kernel(0xffffffff81000002).leaf(0x1000, 5).user(0x2000, 6),
      SyntheticSample(kProcess).kernel(0xffffffff81000001).leaf(0x1000, 5).user(0x2000, 7),
      // The same words, of which another number belongs to the kernel.
      SyntheticSample(kProcess).kernel(1).kernel(2),
      SyntheticSample(kProcess).kernel(1).user(2, 0, PROFD_FRAME_INTERRUPTED),
  };
  StackTable table;
  for (const SyntheticSample& sample : all) add(table, sample);
  EXPECT_EQ(table.stacks().size(), all.size());
}

// Finds: a sample of several blocks that counts once, a time that is set instead of added, and
// times of a copy that change.
TEST(StackTable, AddsUpTheBlocksAndTheirTime) {
  StackTable table;
  add(table, plain().block(PROFD_BLOCK_SLEEPING, 1'000));
  add(table, plain().block(PROFD_BLOCK_DISK, 7));
  add(table, plain().block(PROFD_BLOCK_SLEEPING, 20'000, 3));
  const StackTable copy = table.copy_to_read();
  add(table, plain().block(PROFD_BLOCK_DISK, 5));
  ASSERT_EQ(table.stacks().size(), 2U);
  EXPECT_EQ(table.stacks()[0].count, 4U);
  EXPECT_EQ(table.ns(table.stacks()[0]), 21'000U);
  EXPECT_EQ(table.stacks()[1].count, 2U);
  EXPECT_EQ(table.ns(table.stacks()[1]), 12U);
  EXPECT_EQ(copy.ns(copy.stacks()[1]), 7U);
}

// Finds: a sum, the last one instead of the longest, the time of all blocks that a sample stands
// for, and a copy without them.
TEST(StackTable, KeepsTheLongestBlockOfEachStack) {
  StackTable table;
  add(table, plain().block(PROFD_BLOCK_SLEEPING, 1'000));
  add(table, plain().block(PROFD_BLOCK_SLEEPING, 3'000));
  add(table, plain().block(PROFD_BLOCK_SLEEPING, 20'000, 10));
  add(table, plain().block(PROFD_BLOCK_DISK, 7));
  add(table, plain().block(PROFD_BLOCK_NONE, 10'000));
  const StackTable copy = table.copy_to_read();
  for (const StackTable* const one : {&std::as_const(table), &copy}) {
    ASSERT_EQ(one->stacks().size(), 3U);
    EXPECT_EQ(one->longest_ns(one->stacks()[0]), 3'000U);
    EXPECT_EQ(one->longest_ns(one->stacks()[1]), 7U);
    EXPECT_EQ(one->longest_ns(one->stacks()[2]), 0U);
    EXPECT_EQ(one->ns(one->stacks()[2]), 10'000U);
  }
}

// Finds: times whose places are not those of the stacks, where the first samples had none.
TEST(StackTable, AStackWithoutTimesHasNone) {
  StackTable table;
  add(table, plain());
  EXPECT_EQ(table.ns(table.stacks()[0]), 0U);
  add(table, plain().user(0x3000, 6).block(PROFD_BLOCK_SLEEPING, 9));
  add(table, plain().user(0x4000, 6));
  EXPECT_EQ(table.ns(table.stacks()[0]), 0U);
  EXPECT_EQ(table.ns(table.stacks()[1]), 9U);
  EXPECT_EQ(table.ns(table.stacks()[2]), 0U);
}

// Finds: the times of all stacks begin without a charge, or beyond the room.
TEST(StackTable, ChargesTheTimesOfAllStacksWithTheFirst) {
  StackTable table;
  add(table, plain());
  add(table, plain().user(0x3000, 6));
  const std::uint64_t bytes = table.bytes();
  // A known stack, whose sample makes room for the times of both.
  const SyntheticSample timed = plain().block(PROFD_BLOCK_NONE, 9);
  constexpr std::uint64_t kTimes = 2 * 32;
  EXPECT_EQ(add(table, timed, kTimes - 1), StackTable::Added::kNoRoom);
  EXPECT_EQ(table.bytes(), bytes);
  EXPECT_EQ(table.stacks()[0].count, 1U);
  EXPECT_EQ(add(table, timed, kTimes), StackTable::Added::kKnown);
  EXPECT_EQ(table.bytes(), bytes + kTimes);
  EXPECT_EQ(add(table, timed, 0), StackTable::Added::kKnown);
  EXPECT_EQ(table.ns(table.stacks()[0]), 18U);
}

TEST(StackTable, KeepsStacksWithEqualHashesApart) {
  StackTable table;
  SyntheticSample one = plain();
  SyntheticSample other = plain().user(0x3000, 6);
  const std::uint64_t hash = 42;  // as if both had it
  EXPECT_EQ(table.add(one.view(), hash, kNoLimit), StackTable::Added::kNew);
  EXPECT_EQ(table.add(other.view(), hash, kNoLimit), StackTable::Added::kNew);
  EXPECT_EQ(table.add(one.view(), hash, kNoLimit), StackTable::Added::kKnown);
  EXPECT_EQ(table.add(other.view(), hash, kNoLimit), StackTable::Added::kKnown);
}

TEST(StackTable, RefusesANewStackWithoutRoomButCountsAKnownOne) {
  StackTable table;
  add(table, plain());
  const std::uint64_t bytes = table.bytes();
  EXPECT_EQ(add(table, plain().user(0x3000), 8), StackTable::Added::kNoRoom);
  EXPECT_EQ(add(table, plain(), 0), StackTable::Added::kKnown);
  EXPECT_EQ(table.bytes(), bytes);
  EXPECT_EQ(table.stacks().size(), 1U);
}

TEST(StackTable, CountsAtLeastTheBytesOfItsWords) {
  StackTable table;
  for (std::uint64_t i = 0; i < 1000; ++i) add(table, plain().user(0x10000 + i));
  EXPECT_GE(table.bytes(), 1000 * (6 * sizeof(std::uint64_t) + sizeof(StackTable::Stack)));
}

TEST(StackTable, ACopyToReadStaysAsItWas) {
  StackTable table;
  add(table, plain());
  const StackTable copy = table.copy_to_read();
  add(table, plain());
  add(table, plain().user(0x3000, 6));
  ASSERT_EQ(copy.stacks().size(), 1U);
  EXPECT_EQ(copy.stacks()[0].count, 1U);
  EXPECT_THAT(copy.kernel_frames(copy.stacks()[0]), ElementsAre(0xffffffff81000001));
  EXPECT_THAT(copy.mapping_ids(copy.stacks()[0]), ElementsAre(5, 6));
  ASSERT_EQ(table.stacks().size(), 2U);
  EXPECT_EQ(table.stacks()[0].count, 2U);
}

// A dump of a large session takes no time for them.
TEST(StackTable, ACopyToReadHasNoWordsOfItsOwn) {
  StackTable table;
  add(table, plain());
  const StackTable copy = table.copy_to_read();
  EXPECT_EQ(copy.user_frames(copy.stacks()[0]).data(), table.user_frames(table.stacks()[0]).data());
}

TEST(StackTable, PutsEachContextInItsClass) {
  EXPECT_EQ(class_of(PROFD_CONTEXT_USER), StackClass::kUser);
  EXPECT_EQ(class_of(PROFD_CONTEXT_SYSCALL), StackClass::kUser);
  EXPECT_EQ(class_of(PROFD_CONTEXT_TRAP), StackClass::kUser);
  EXPECT_EQ(class_of(PROFD_CONTEXT_KTHREAD), StackClass::kKernelOnly);
  EXPECT_EQ(class_of(PROFD_CONTEXT_EXIT), StackClass::kKernelOnly);
  EXPECT_EQ(class_of(PROFD_CONTEXT_EXEC), StackClass::kKernelOnly);
  EXPECT_EQ(class_of(PROFD_CONTEXT_COMPAT), StackClass::kCompat);
}

}  // namespace
}  // namespace profd
