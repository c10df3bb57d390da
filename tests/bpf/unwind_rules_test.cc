// Stacks of every form, unwound by hand-written rows frame by frame, and false rows.

#include <algorithm>

#include "tests/bpf/frames.h"
#include "tests/bpf/unwind_test.h"
#include "tests/bpf/workload.h"

namespace profd::test {
namespace {

struct Chain {
  const char* name;
  std::vector<std::string> kinds;  // outermost first
};

class UnwindRulesTest : public UnwindTest {
 protected:
  // Runs the chain under these rules.
  void run(const std::vector<std::string>& kinds, const FrameRules& rules) {
    workload_.emplace(kinds, WorkloadOptions{.program = frames_path()});
    sample({workload_->pid()});
    const StoredMapping& mapping = mapping_at(workload_->pid(), frames_label("enter"));
    install(mapping.file, frames_rows(rules, mapping));
    raise_tables();
  }

  // Samples in the leaf of the chain.
  std::vector<const StoredSample*> collect_in_leaf(const std::string& kind, std::size_t count) {
    const std::uint64_t leaf = frames_label(kind + "_spins");
    return collect(count, [=](const StoredSample& sample) {
      return !sample.view.user_frames.empty() && sample.frame(0).address == leaf;
    });
  }

 private:
  std::optional<Workload> workload_;
};

class UnwindChainTest : public UnwindRulesTest, public testing::WithParamInterface<Chain> {};

TEST_P(UnwindChainTest, IsCompleteFrameByFrame) {
  const auto& kinds = GetParam().kinds;
  run(kinds, frames_rules());
  for (const StoredSample* sample : collect_in_leaf(kinds.back(), 30)) {
    ASSERT_EQ(frames_of(*sample), frames_stack(kinds));
    EXPECT_EQ(sample->view.user_end, PROFD_END_ENTRY);
    for (std::size_t i = 0; i < sample->view.user_frames.size(); ++i) {
      ASSERT_LT(sample->frame(i).mapping, sample->view.mapping_ids.size());
    }
  }
}

std::vector<std::string> repeated(std::vector<std::string> kinds, std::size_t times,
                                  const std::string& leaf) {
  const std::vector<std::string> once = kinds;
  for (std::size_t i = 1; i < times; ++i) kinds.insert(kinds.end(), once.begin(), once.end());
  kinds.push_back(leaf);
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(
    UnwindRules, UnwindChainTest,
    testing::Values(
        Chain{"TheLeafAlone", {"leaf"}}, Chain{"ByStackPointer", {"plain", "plain", "leaf"}},
        Chain{"ByFramePointerOfARow", {"framed", "framed", "leaf"}},
        Chain{"RbpAndRbxGotBack", {"framed", "by_rbx", "clobber", "leaf"}},
        Chain{"ByRbx", {"by_rbx", "plain", "by_rbx", "leaf"}},
        Chain{"FramesLargerThanTheWindow", {"big", "plain", "big", "clobber", "leaf"}},
        Chain{"ARealignedStack", {"framed", "realigned", "framed", "leaf"}},
        Chain{"AReturnAddressInRbx", {"in_register", "clobber", "leaf"}},
        Chain{"RbpMovedToRbx", {"framed", "moved", "plain", "leaf"}},
        Chain{"ARowThenAFramePointerThenARow", {"plain", "fallback", "plain", "leaf"}},
        Chain{"FramePointersInARow", {"framed", "fallback", "fallback", "plain", "leaf"}},
        Chain{"RbpInTheRedZone", {"framed", "leaf_red_zone"}},
        Chain{"ALeafByAnyRegister", {"plain", "leaf_r11"}},
        Chain{"ALeafByAnIndex", {"plain", "leaf_indexed"}},
        Chain{"APltStub", {"plain", "leaf_plt"}},
        Chain{"APltStubThatHasPushed", {"plain", "leaf_plt_pushed"}},
        Chain{"ASignalOnAStackElsewhere", {"plain", "hit", "plain", "leaf"}},
        Chain{"ASignalInASignal", {"framed", "hit", "clobber", "hit", "clobber", "leaf"}},
        Chain{"ASignalWhereAnyRegisterLeads", {"framed", "hit_r11", "clobber", "leaf"}},
        Chain{"EveryShape",
              {"plain", "framed", "by_rbx", "big", "realigned", "hit", "clobber", "in_register",
               "clobber", "moved", "fallback", "hit_r11", "plain", "leaf_indexed"}},
        Chain{"ManyFrames", repeated({"plain", "clobber", "framed"}, 100, "leaf")}),
    [](const auto& chain) { return std::string(chain.param.name); });

TEST_F(UnwindRulesTest, ASystemCallIsUnwoundFromItsReturnAddress) {
  run({"plain", "framed", "leaf_kernel"}, frames_rules());
  auto expected = frames_stack({"plain", "framed", "leaf_kernel"});
  expected.front().how = PROFD_FRAME_SYSCALL;
  const auto samples = collect(30, [](const StoredSample& sample) {
    return sample.view.context == PROFD_CONTEXT_SYSCALL && sample.view.user_frames.size() > 1 &&
           sample.frame(0).address == frames_label("leaf_kernel_spins");
  });
  for (const StoredSample* sample : samples) {
    ASSERT_EQ(frames_of(*sample), expected);
    EXPECT_EQ(sample->view.user_end, PROFD_END_ENTRY);
    EXPECT_FALSE(sample->view.kernel_frames.empty());
  }
}

// A chain with one false rule.
struct FalseRule {
  const char* name;
  std::vector<std::string> kinds;
  const char* function;
  std::optional<profd_rule> rule;  // none: no row
  profd_user_end end;
  std::size_t frames;  // in the sample
};

profd_rule false_rule(std::uint8_t cfa_register, std::int32_t cfa_offset,
                      profd_rule_kind kind = PROFD_RULE_REGISTER) {
  profd_rule rule = cfa_rule(cfa_register, cfa_offset);
  rule.kind = kind;
  return rule;
}

profd_rule false_rule_of_bp(std::int32_t cfa_offset, profd_saved saved, std::int32_t offset) {
  profd_rule rule = false_rule(PROFD_DWARF_RSP, cfa_offset);
  rule.rbp_saved = saved;
  rule.rbp_offset = offset;
  return rule;
}

profd_rule lie_of_return_address(profd_saved saved, std::int32_t offset) {
  profd_rule rule = false_rule(PROFD_DWARF_RSP, 48);
  rule.ra_saved = saved;
  rule.ra_offset = offset;
  return rule;
}

class UnwindFalseRuleTest : public UnwindRulesTest,
                            public testing::WithParamInterface<FalseRule> {};

TEST_P(UnwindFalseRuleTest, EndsTheStackWithItsReason) {
  FrameRules rules = frames_rules();
  rules.erase(GetParam().function);
  if (GetParam().rule) rules[GetParam().function] = *GetParam().rule;
  run(GetParam().kinds, rules);
  const std::string& leaf = GetParam().kinds.back();
  for (const StoredSample* sample :
       collect_in_leaf(leaf == "own_frame_leaf" ? "own_frame" : leaf, 20)) {
    EXPECT_EQ(sample->view.user_end, GetParam().end);
    EXPECT_EQ(sample->view.user_frames.size(), GetParam().frames);
  }
}

constexpr std::uint8_t kRsp = PROFD_DWARF_RSP;
constexpr std::uint8_t kR12 = 12;
constexpr std::int32_t kFar = 1 << 28;

INSTANTIATE_TEST_SUITE_P(UnwindRules, UnwindFalseRuleTest,
                         testing::Values(FalseRule{"ACfaAtSp",
                                                   {"plain", "leaf"},
                                                   "plain",
                                                   false_rule(kRsp, 0),
                                                   PROFD_END_CFA_NOT_ABOVE,
                                                   2},
                                         FalseRule{"ACfaBelowSp",
                                                   {"plain", "leaf"},
                                                   "plain",
                                                   false_rule(kRsp, -64),
                                                   PROFD_END_CFA_NOT_ABOVE,
                                                   2},
                                         FalseRule{"ASlotBelowSp",
                                                   {"plain", "leaf"},
                                                   "plain",
                                                   false_rule_of_bp(48, PROFD_SAVED_AT_CFA, -56),
                                                   PROFD_END_CFA_NOT_ABOVE,
                                                   2},
                                         FalseRule{"ASlotBelowTheRedZone",
                                                   {"plain", "leaf"},
                                                   "leaf",
                                                   false_rule_of_bp(8, PROFD_SAVED_AT_CFA, -144),
                                                   PROFD_END_CFA_NOT_ABOVE,
                                                   1},
                                         FalseRule{"AReturnAddressBelowSp",
                                                   {"plain", "leaf"},
                                                   "plain",
                                                   lie_of_return_address(PROFD_SAVED_AT_CFA, -64),
                                                   PROFD_END_CFA_NOT_ABOVE,
                                                   2},
                                         FalseRule{
                                             "AReturnAddressInALostRegister",
                                             {"plain", "clobber", "leaf"},
                                             "plain",
                                             lie_of_return_address(PROFD_SAVED_REGISTER, kR12),
                                             PROFD_END_REGISTER_LOST,
                                             3},
                                         FalseRule{"AnUnreadableCfa",
                                                   {"plain", "leaf"},
                                                   "plain",
                                                   false_rule(kRsp, kFar),
                                                   PROFD_END_STACK_UNREADABLE,
                                                   2},
                                         FalseRule{"AnUnreadableCfaOfTheRowItself",
                                                   {"plain", "leaf"},
                                                   "plain",
                                                   false_rule(kRsp, 8184),
                                                   PROFD_END_STACK_UNREADABLE,
                                                   2},
                                         FalseRule{"AnUnreadablePointerToTheCfa",
                                                   {"plain", "leaf"},
                                                   "plain",
                                                   false_rule(kRsp, kFar, PROFD_RULE_DEREF),
                                                   PROFD_END_STACK_UNREADABLE,
                                                   2},
                                         FalseRule{"APointerToNoCfa",
                                                   {"plain", "leaf"},
                                                   "plain",
                                                   false_rule(kRsp, 0, PROFD_RULE_DEREF),
                                                   PROFD_END_CFA_NOT_ABOVE,
                                                   2},
                                         FalseRule{"AnUnreadableSignalFrame",
                                                   {"plain", "leaf"},
                                                   "plain",
                                                   false_rule(kRsp, kFar, PROFD_RULE_SIGNAL),
                                                   PROFD_END_STACK_UNREADABLE,
                                                   2},
                                         FalseRule{"AReturnAddressOfZero",
                                                   {"plain", "leaf"},
                                                   "plain",
                                                   false_rule(kRsp, 40),
                                                   PROFD_END_PC_UNMAPPED,
                                                   2},
                                         FalseRule{"ARegisterThatOnlyALeafAndItsCallerKnow",
                                                   {"plain", "clobber", "leaf"},
                                                   "plain",
                                                   false_rule(kR12, 8),
                                                   PROFD_END_REGISTER_LOST,
                                                   3},
                                         FalseRule{"ALostRbpThatARowNeeds",
                                                   {"framed", "clobber", "leaf"},
                                                   "clobber",
                                                   false_rule_of_bp(32, PROFD_SAVED_LOST, 0),
                                                   PROFD_END_REGISTER_LOST,
                                                   3},
                                         FalseRule{"ALostRbpThatAFramePointerStepNeeds",
                                                   {"fallback", "clobber", "leaf"},
                                                   "clobber",
                                                   false_rule_of_bp(32, PROFD_SAVED_LOST, 0),
                                                   PROFD_END_REGISTER_LOST,
                                                   3},
                                         FalseRule{"RbxBehindAFramePointerStep",
                                                   {"in_register", "fallback", "leaf"},
                                                   "fallback",
                                                   std::nullopt,
                                                   PROFD_END_REGISTER_LOST,
                                                   3},
                                         FalseRule{"NoRowAndNoFramePointer",
                                                   {"clobber", "leaf"},
                                                   "leaf",
                                                   std::nullopt,
                                                   PROFD_END_NO_ROW,
                                                   1},
                                         FalseRule{"NoRowAndAFramePointerOfZeroThatNoChainLedTo",
                                                   {"leaf"},
                                                   "leaf",
                                                   std::nullopt,
                                                   PROFD_END_NO_ROW,
                                                   1},
                                         FalseRule{"NoRowBehindTheLastFramePointer",
                                                   {"fallback", "plain", "leaf"},
                                                   "enter",
                                                   std::nullopt,
                                                   PROFD_END_FP_ZERO,
                                                   4},
                                         FalseRule{"ASignalFrameThatLeadsToItself",
                                                   {"plain", "own_frame_leaf"},
                                                   "plain",
                                                   false_rule(kRsp, 48),
                                                   PROFD_END_CFA_NOT_ABOVE,
                                                   1 + PROFD_MAX_SIGNAL_FRAMES},
                                         FalseRule{"AStackOfOneReturnAddress",
                                                   {"endless"},
                                                   "plain",
                                                   false_rule(kRsp, 48),
                                                   PROFD_END_DEPTH_LIMIT,
                                                   PROFD_MAX_USER_FRAMES}),
                         [](const auto& false_rule) { return std::string(false_rule.param.name); });

TEST_F(UnwindRulesTest, AFileWithoutRowsIsUnwoundByFramePointers) {
  const Workload workload({"framed", "framed", "plain", "leaf"}, {.program = frames_path()});
  sample({workload.pid()});
  install_none(mapping_at(workload.pid(), frames_label("enter")).file);
  raise_tables();
  // The two inner frames have no frame pointer, so the chain skips them.
  const std::vector<KnownFrame> expected = {
      {frames_label("leaf_spins"), PROFD_FRAME_INTERRUPTED},
      {frames_label("framed_returns"), PROFD_FRAME_POINTER},
      {frames_label("enter_returns"), PROFD_FRAME_POINTER},
  };
  const auto samples = collect(20, [](const StoredSample& sample) {
    return !sample.view.user_frames.empty() &&
           sample.frame(0).address == frames_label("leaf_spins");
  });
  for (const StoredSample* sample : samples) {
    EXPECT_EQ(frames_of(*sample), expected);
    EXPECT_EQ(sample->view.user_end, PROFD_END_FP_ZERO);
  }
}

TEST_F(UnwindRulesTest, AFileWithoutRowsAndFramePointersEndsTheStackWithItsReason) {
  const Workload workload({"clobber", "leaf"}, {.program = frames_path()});
  sample({workload.pid()});
  install_none(mapping_at(workload.pid(), frames_label("enter")).file);
  raise_tables();
  const auto samples = collect(20, [](const StoredSample& sample) {
    return sample.view.user_end != PROFD_END_NO_FRAME_POINTER;
  });
  for (const StoredSample* sample : samples) {
    EXPECT_EQ(sample->view.user_end, PROFD_END_NO_TABLE);
  }
}

}  // namespace
}  // namespace profd::test
