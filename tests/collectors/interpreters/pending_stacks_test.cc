// Records of interpreted frames and their samples, in the orders in which rings have them.

#include "collectors/interpreters/pending_stacks.h"

#include <vector>

#include <gtest/gtest.h>

namespace profd {
namespace {

constexpr ProcessKey kProcess{.tgid = 42, .exec_id = 1, .start_ns = 7};
constexpr ProcessKey kOther{.tgid = 43, .exec_id = 1, .start_ns = 7};

class PendingStacksTest : public testing::Test {
 protected:
  void add(std::uint64_t time_ns, std::uint64_t id, bool of_block = false, std::uint32_t cpu = 0,
           const ProcessKey& process = kProcess) {
    const std::vector<profd_interpreted_entry> entries = {
        {.value = id, .position = 3, .kind = PROFD_ENTRY_FRAME},
        {.value = 0x100, .position = 1, .kind = PROFD_ENTRY_BOUNDARY}};
    stacks_.add({.process = process,
                 .time_ns = time_ns,
                 .cpu = cpu,
                 .kind = PROFD_RUNTIME_PYTHON,
                 .layout = 4,
                 .end = PROFD_CHAIN_NOT_CODE,
                 .of_block = of_block,
                 .entries = entries});
  }

  // The id of the frame of the sample's stack. 0: it has none.
  std::uint64_t take(std::uint64_t time_ns, bool of_block = false, std::uint32_t cpu = 0,
                     const ProcessKey& process = kProcess,
                     profd_interpreted interpreted = PROFD_INTERPRETED_SENT) {
    SampleView sample{};
    sample.process = process;
    sample.time_ns = time_ns;
    sample.cpu = cpu;
    sample.interpreted = interpreted;
    sample.block.id = of_block ? 99 : 0;
    const InterpretedStack* const stack = stacks_.take(sample);
    return stack == nullptr ? 0 : stack->entries.front().value;
  }

  PendingStacks stacks_;
};

TEST_F(PendingStacksTest, ARecordIsThatOfTheSampleBehindIt) {
  add(100, 1);
  SampleView sample{};
  sample.process = kProcess;
  sample.time_ns = 100;
  sample.interpreted = PROFD_INTERPRETED_SENT;
  const InterpretedStack* const stack = stacks_.take(sample);
  ASSERT_NE(stack, nullptr);
  EXPECT_EQ(stack->kind, PROFD_RUNTIME_PYTHON);
  EXPECT_EQ(stack->layout, 4U);
  EXPECT_EQ(stack->end, PROFD_CHAIN_NOT_CODE);
  ASSERT_EQ(stack->entries.size(), 2U);
  EXPECT_EQ(stack->entries[1].position, 1U);
  EXPECT_EQ(stacks_.orphans(), 0U);
}

TEST_F(PendingStacksTest, ASampleWithoutInterpretedFramesTakesNone) {
  add(100, 1);
  EXPECT_EQ(take(100, false, 0, kProcess, PROFD_INTERPRETED_NONE), 0U);
  EXPECT_EQ(take(100, false, 0, kProcess, PROFD_INTERPRETED_LOST), 0U);
  EXPECT_EQ(stacks_.orphans(), 0U);
  EXPECT_EQ(take(100), 1U) << "it is still there";
}

// A tick interrupts a switch between its two records.
TEST_F(PendingStacksTest, ATickMayComeBetweenTheRecordsOfASwitch) {
  add(100, 1, true);
  add(101, 2);
  EXPECT_EQ(take(101), 2U);
  EXPECT_EQ(take(100, true), 1U);
  EXPECT_EQ(stacks_.orphans(), 0U);
}

// The clock of a virtual machine may stand still between both.
TEST_F(PendingStacksTest, ATickAndASwitchAtTheSameTimeHaveTheirOwn) {
  add(100, 1, true);
  add(100, 2);
  EXPECT_EQ(take(100), 2U);
  EXPECT_EQ(take(100, true), 1U);
}

TEST_F(PendingStacksTest, EachCpuHasItsOwn) {
  add(100, 1, false, 0);
  add(100, 2, false, 3);
  EXPECT_EQ(take(100, false, 3), 2U);
  EXPECT_EQ(take(100, false, 0), 1U);
  EXPECT_EQ(stacks_.orphans(), 0U);
}

TEST_F(PendingStacksTest, TheRecordOfALostSampleIsNotThatOfTheNextOne) {
  add(100, 1);
  add(200, 2);
  EXPECT_EQ(stacks_.orphans(), 1U);
  EXPECT_EQ(take(200), 2U);
}

TEST_F(PendingStacksTest, AnotherTimeOrProcessTakesNothing) {
  add(100, 1);
  EXPECT_EQ(take(101), 0U);
  EXPECT_EQ(take(100, false, 0, kOther), 0U);
  EXPECT_EQ(take(100, true), 0U);
  EXPECT_EQ(take(100, false, 7), 0U) << "a CPU that has sent nothing";
  EXPECT_EQ(stacks_.orphans(), 4U);
}

TEST_F(PendingStacksTest, ARecordIsTakenOnce) {
  add(100, 1);
  EXPECT_EQ(take(100), 1U);
  EXPECT_EQ(take(100), 0U);
  EXPECT_EQ(stacks_.orphans(), 1U);
}

TEST_F(PendingStacksTest, ACpuThatNoHostHasTakesNoMemory) {
  add(100, 1, false, 0xffff'ffff);
  EXPECT_EQ(take(100, false, 0xffff'ffff), 0U);
}

}  // namespace
}  // namespace profd
