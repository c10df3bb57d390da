// Steps over small stacks that are defined word by word.

#include "collectors/unwinding/step.h"

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace profd {
namespace {

constexpr std::uint64_t kStack = 0x7ff000001000;

profd_rule rule(profd_rule_kind kind, std::uint8_t base, std::int32_t offset) {
  profd_rule made{};
  made.kind = static_cast<std::uint8_t>(kind);
  made.cfa_register = base;
  made.cfa_offset = offset;
  made.ra_saved = PROFD_SAVED_AT_CFA;
  made.ra_offset = -8;
  return made;
}

// Word i is 0x1000 + i, so that a value identifies the slot.
class UnwindStepTest : public testing::Test {
 protected:
  UnwindStepTest() {
    for (std::uint64_t i = 0; i < words_.size(); ++i) words_[i] = 0x1000 + i;
    frame_.registers[10] = kStack + 8 * 10;
    frame_.registers[11] = 2;
  }
  [[nodiscard]] static std::uint64_t at(std::uint64_t word) { return kStack + 8 * word; }
  profd_user_end step(const profd_rule& by) {
    return step_by_rule(frame_, by, StackWindow(kStack, words_));
  }
  profd_user_end step_by_bp(profd_user_end without = PROFD_END_NO_TABLE) {
    return step_by_frame_pointer(frame_, StackWindow(kStack, words_), without);
  }

  std::vector<std::uint64_t> words_ = std::vector<std::uint64_t>(64);
  UnwindFrame frame_{.ip = 0x400000, .sp = kStack, .bp = kStack + 80, .bx = 77};
};

TEST_F(UnwindStepTest, TheCallerIsReadBelowTheCfa) {
  profd_rule by = rule(PROFD_RULE_REGISTER, PROFD_DWARF_RSP, 32);
  by.rbp_saved = PROFD_SAVED_AT_CFA;
  by.rbp_offset = -16;
  by.rbx_saved = PROFD_SAVED_AT_CFA;
  by.rbx_offset = -24;
  ASSERT_EQ(step(by), kStepped);
  EXPECT_EQ(frame_.sp, at(4));
  EXPECT_EQ(frame_.ip, 0x1003U);
  EXPECT_EQ(frame_.bp, 0x1002U);
  EXPECT_EQ(frame_.bx, 0x1001U);
  EXPECT_EQ(frame_.how, PROFD_FRAME_ROW);
  EXPECT_EQ(frame_.code_address(), 0x1002U);
}

TEST_F(UnwindStepTest, ARegisterThatWasNotSavedIsUnchanged) {
  ASSERT_EQ(step(rule(PROFD_RULE_REGISTER, PROFD_DWARF_RSP, 8)), kStepped);
  EXPECT_EQ(frame_.bp, at(10));
  EXPECT_EQ(frame_.bx, 77U);
  EXPECT_EQ(frame_.lost, 0U);
}

TEST_F(UnwindStepTest, TheCfaMayUseTheFramePointerOrAnyRegisterOfTheLeaf) {
  UnwindFrame leaf = frame_;
  ASSERT_EQ(step(rule(PROFD_RULE_REGISTER, PROFD_DWARF_RBP, 16)), kStepped);
  EXPECT_EQ(frame_.sp, at(12));
  frame_ = leaf;
  ASSERT_EQ(step(rule(PROFD_RULE_REGISTER, 10, 0)), kStepped);
  EXPECT_EQ(frame_.sp, at(10));
  EXPECT_EQ(frame_.ip, 0x1009U);
}

TEST_F(UnwindStepTest, UnsavedRegistersOfTheLeafAreKnownInItsDirectCallerOnly) {
  frame_.registers[0] = at(20);
  ASSERT_EQ(step(rule(PROFD_RULE_REGISTER, PROFD_DWARF_RSP, 16)), kStepped);
  ASSERT_EQ(step(rule(PROFD_RULE_REGISTER, 0, 0)), kStepped);
  EXPECT_EQ(frame_.sp, at(20));
  EXPECT_EQ(step(rule(PROFD_RULE_REGISTER, 0, 80)), PROFD_END_REGISTER_LOST);
}

// As in glibc's vfork() behind its pop %rdi.
TEST_F(UnwindStepTest, ALeafWithItsReturnAddressInARegisterMayHaveNoFrame) {
  constexpr std::int32_t kRdi = 5;
  frame_.registers[kRdi] = 0x401234;
  profd_rule by = rule(PROFD_RULE_REGISTER, PROFD_DWARF_RSP, 0);
  by.ra_saved = PROFD_SAVED_REGISTER;
  by.ra_offset = kRdi;
  ASSERT_EQ(step(by), kStepped);
  EXPECT_EQ(frame_.sp, kStack);
  EXPECT_EQ(frame_.ip, 0x401234U);
  by.ra_offset = PROFD_DWARF_RBP;
  EXPECT_EQ(step(by), PROFD_END_CFA_NOT_ABOVE);  // only the leaf: else a walk would not end
}

TEST_F(UnwindStepTest, ADereferencedCfaIsReadFromTheStack) {
  words_[3] = at(20);
  ASSERT_EQ(step(rule(PROFD_RULE_DEREF, PROFD_DWARF_RSP, 24)), kStepped);
  EXPECT_EQ(frame_.sp, at(20));
}

TEST_F(UnwindStepTest, AnIndexCountsWordsAndRegistersMayBeSavedRelativeToTheBase) {
  words_[12] = at(30);
  profd_rule by = rule(PROFD_RULE_DEREF, 10, 0);
  by.cfa_index = 1 + 11;
  by.cfa_add = 8;
  by.rbp_saved = PROFD_SAVED_AT_REGISTER;
  by.rbp_offset = 8;
  ASSERT_EQ(step(by), kStepped);
  EXPECT_EQ(frame_.sp, at(31));
  EXPECT_EQ(frame_.ip, 0x1000U + 30);
  EXPECT_EQ(frame_.bp, 0x1000U + 11);
}

TEST_F(UnwindStepTest, TheCfaInAPltStubDependsOnTheOffsetOfThePush) {
  UnwindFrame leaf = frame_;
  profd_rule by = rule(PROFD_RULE_PLT, 0, 0);
  by.cfa_add = 11;
  frame_.ip = 0x40000a;
  ASSERT_EQ(step(by), kStepped);
  EXPECT_EQ(frame_.sp, at(1));
  frame_ = leaf;
  frame_.ip = 0x40000b;
  ASSERT_EQ(step(by), kStepped);
  EXPECT_EQ(frame_.sp, at(2));
}

TEST_F(UnwindStepTest, ASignalFrameGivesAllRegistersBack) {
  // As in the kernel's struct sigcontext: r8 first, rsp at 15, ip at 16.
  words_[2 + 0] = 0x88;
  words_[2 + 15] = at(40);
  words_[2 + 16] = 0x500000;
  words_[2 + 10] = 0x66;  // rbp
  words_[2 + 11] = 0xbb;  // rbx
  ASSERT_EQ(step(rule(PROFD_RULE_SIGNAL, PROFD_DWARF_RSP, 16)), kStepped);
  EXPECT_EQ(frame_.ip, 0x500000U);
  EXPECT_EQ(frame_.sp, at(40));
  EXPECT_EQ(frame_.bp, 0x66U);
  EXPECT_EQ(frame_.bx, 0xbbU);
  EXPECT_EQ(frame_.registers[8], 0x88U);
  EXPECT_EQ(frame_.how, PROFD_FRAME_SIGNAL);
  EXPECT_EQ(frame_.code_address(), 0x500000U);  // where it hit, no return address
}

TEST_F(UnwindStepTest, ACycleOfSignalFramesEnds) {
  words_[2 + 15] = kStack;
  for (int i = 0; i < PROFD_MAX_SIGNAL_FRAMES; ++i) {
    ASSERT_EQ(step(rule(PROFD_RULE_SIGNAL, PROFD_DWARF_RSP, 16)), kStepped);
  }
  EXPECT_EQ(step(rule(PROFD_RULE_SIGNAL, PROFD_DWARF_RSP, 16)), PROFD_END_CFA_NOT_ABOVE);
}

TEST_F(UnwindStepTest, OnlyALeafMaySaveRegistersBelowItsStackPointer) {
  frame_.sp = at(4);
  profd_rule by = rule(PROFD_RULE_REGISTER, PROFD_DWARF_RSP, 8);
  by.rbp_saved = PROFD_SAVED_AT_CFA;
  by.rbp_offset = -16;
  const UnwindFrame leaf = frame_;
  ASSERT_EQ(step(by), kStepped);
  EXPECT_EQ(frame_.bp, 0x1003U);
  frame_ = leaf;
  frame_.how = PROFD_FRAME_ROW;
  ASSERT_EQ(step(by), kStepped);
  EXPECT_EQ(frame_.lost, PROFD_LOST_BP);
}

TEST_F(UnwindStepTest, AnUnknownRegisterEndsOnlyStepsThatNeedIt) {
  profd_rule by = rule(PROFD_RULE_REGISTER, PROFD_DWARF_RSP, 8);
  by.rbp_saved = PROFD_SAVED_LOST;
  ASSERT_EQ(step(by), kStepped);
  ASSERT_EQ(step(rule(PROFD_RULE_REGISTER, PROFD_DWARF_RSP, 8)), kStepped);
  EXPECT_EQ(step(rule(PROFD_RULE_REGISTER, PROFD_DWARF_RBP, 8)), PROFD_END_REGISTER_LOST);
  EXPECT_EQ(step_by_bp(), PROFD_END_REGISTER_LOST);
}

TEST_F(UnwindStepTest, AFramePointerOfZeroEndsOnlyAChainOfFramePointers) {
  ASSERT_EQ(step_by_bp(), kStepped);
  EXPECT_EQ(frame_.ip, 0x100bU);
  EXPECT_EQ(frame_.sp, at(12));
  EXPECT_EQ(frame_.bp, 0x100aU);
  EXPECT_EQ(frame_.how, PROFD_FRAME_POINTER);
  EXPECT_EQ(frame_.lost, PROFD_LOST_BX);
  EXPECT_EQ(step_by_bp(), PROFD_END_NO_TABLE);  // the frame pointer is not usable now
  frame_.bp = 0;
  EXPECT_EQ(step_by_bp(), PROFD_END_FP_ZERO);
}

struct Ending {
  const char* name;
  profd_user_end end;
  std::function<void(UnwindFrame&, profd_rule&)> change;
};

class UnwindEndTest : public UnwindStepTest, public testing::WithParamInterface<Ending> {};

TEST_P(UnwindEndTest, HasItsReasonAndKeepsTheFrame) {
  profd_rule by = rule(PROFD_RULE_REGISTER, PROFD_DWARF_RSP, 16);
  GetParam().change(frame_, by);
  const UnwindFrame before = frame_;
  EXPECT_EQ(step(by), GetParam().end);
  EXPECT_EQ(frame_.ip, before.ip);
  EXPECT_EQ(frame_.sp, before.sp);
}

INSTANTIATE_TEST_SUITE_P(
    UnwindStepTest, UnwindEndTest,
    testing::Values(
        Ending{"Entry", PROFD_END_ENTRY, [](auto&, auto& by) { by.kind = PROFD_RULE_END; }},
        Ending{"Unknown", PROFD_END_NO_ROW, [](auto&, auto& by) { by.kind = PROFD_RULE_UNKNOWN; }},
        Ending{"NoSuchKind", PROFD_END_NO_ROW, [](auto&, auto& by) { by.kind = 200; }},
        Ending{"NoSuchRegister", PROFD_END_REGISTER_LOST,
               [](auto&, auto& by) { by.cfa_register = 200; }},
        Ending{"NoSuchIndex", PROFD_END_REGISTER_LOST,
               [](auto&, auto& by) {
                 by.kind = PROFD_RULE_DEREF;
                 by.cfa_index = 200;
               }},
        Ending{"CfaAtTheStackPointer", PROFD_END_CFA_NOT_ABOVE,
               [](auto&, auto& by) { by.cfa_offset = 0; }},
        Ending{"CfaBelow", PROFD_END_CFA_NOT_ABOVE, [](auto&, auto& by) { by.cfa_offset = -8; }},
        Ending{"ReturnAddressBelow", PROFD_END_CFA_NOT_ABOVE,
               [](auto&, auto& by) { by.ra_offset = -24; }},
        Ending{"ReturnAddressNowhere", PROFD_END_NO_ROW,
               [](auto&, auto& by) { by.ra_saved = PROFD_SAVED_LOST; }},
        Ending{"BeyondTheCopy", PROFD_END_STACK_UNREADABLE,
               [](auto&, auto& by) { by.cfa_offset = 64 * 8 + 8; }},
        Ending{"HalfBeyondTheCopy", PROFD_END_STACK_UNREADABLE,
               [](auto&, auto& by) { by.cfa_offset = 64 * 8 + 1; }},
        Ending{"DerefOfNothing", PROFD_END_STACK_UNREADABLE,
               [](auto& frame, auto& by) {
                 by.kind = PROFD_RULE_DEREF;
                 by.cfa_register = 10;
                 frame.registers[10] = UINT64_MAX - 3;
                 by.cfa_offset = 0;
               }}),
    [](const auto& ending) { return std::string(ending.param.name); });

TEST(StackWindowTest, TheReadBehindAFullWindowHasTheReasonWindow) {
  const std::vector<std::uint64_t> words(PROFD_DEFERRED_WINDOW_BYTES / 8);
  const StackWindow whole(kStack, words);
  EXPECT_EQ(whole.end_at(kStack + PROFD_DEFERRED_WINDOW_BYTES), PROFD_END_WINDOW);
  EXPECT_EQ(whole.end_at(kStack - 8), PROFD_END_STACK_UNREADABLE);
  EXPECT_TRUE(whole.read(kStack + PROFD_DEFERRED_WINDOW_BYTES - 8));
  EXPECT_FALSE(whole.read(kStack + PROFD_DEFERRED_WINDOW_BYTES - 7));
  EXPECT_FALSE(whole.read(kStack - 1));
  EXPECT_FALSE(StackWindow(kStack, {}).read(kStack));
}

}  // namespace
}  // namespace profd
