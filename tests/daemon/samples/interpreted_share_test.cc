// Code objects on their way from the unwinding to snapshots, and until their process is forgotten.

#include "daemon/samples/interpreted_share.h"

#include <gtest/gtest.h>

#include "tests/daemon/samples/fake_source.h"
#include "tests/daemon/samples/synthetic_sample.h"

namespace profd {
namespace {

using test::kProcess;
using test::SyntheticSample;

class InterpretedShareTest : public testing::Test {
 protected:
  // Announces a code object, and returns its number.
  std::uint32_t announce(std::uint64_t id) {
    InterpretedCodeView view{.process = kProcess, .time_ns = 1, .id = id, .code = {}};
    view.code.kind = PROFD_RUNTIME_PYTHON;
    view.code.texts[PROFD_CODE_NAME] = {.bytes = "work", .kind = PROFD_TEXT_LATIN_1};
    codes_.on_code(view, 0);
    return codes_.number_of(kProcess, id, 0);
  }

  InterpretedCodes codes_{nullptr, [](const ProcessKey&) { return true; }};  // all have ended
  Aggregator aggregator_{nullptr, nullptr, &codes_};
  test::FakeSource source_{aggregator_};
};

TEST_F(InterpretedShareTest, ASnapshotHasTheCodeOfItsProcesses) {
  const std::uint32_t number = announce(0xaaaa);
  SessionSnapshot snapshot;
  snapshot.processes.emplace_back().key = kProcess;
  snapshot.processes.emplace_back().key = {.tgid = 99, .exec_id = 1, .start_ns = 1};
  share_code(snapshot, &codes_, source_);
  ASSERT_NE(snapshot.processes[0].interpreted, nullptr);
  EXPECT_NE(snapshot.processes[0].interpreted->find(number), nullptr);
  EXPECT_EQ(snapshot.processes[1].interpreted, nullptr) << "it interprets nothing";
}

TEST_F(InterpretedShareTest, WithoutCodeNothingIsShared) {
  SessionSnapshot snapshot;
  snapshot.processes.emplace_back().key = kProcess;
  share_code(snapshot, nullptr, source_);
  EXPECT_EQ(snapshot.processes[0].interpreted, nullptr);
}

// A number must not mean another code object while a session has stacks with it.
TEST_F(InterpretedShareTest, CodeIsForgottenWithItsProcess) {
  const std::uint32_t number = announce(0xaaaa);
  aggregator_.open(0, test::kNoLimit);
  aggregator_.on_sample(SyntheticSample(kProcess).interpreted(number, 3).leaf(1).view());
  (void)aggregator_.forget_processes();
  EXPECT_NE(codes_.share(kProcess), nullptr) << "a session has its samples";
  (void)aggregator_.close(0);
  (void)aggregator_.forget_processes([](const ProcessKey& key) { return key == kProcess; });
  EXPECT_NE(codes_.share(kProcess), nullptr) << "it has an open block";
  (void)aggregator_.forget_processes();
  EXPECT_EQ(codes_.share(kProcess), nullptr);
}

TEST_F(InterpretedShareTest, StacksDifferByTheirInterpretedFrames) {
  aggregator_.open(0, test::kNoLimit);
  for (const std::uint32_t position : {3U, 4U, 3U}) {
    aggregator_.on_sample(SyntheticSample(kProcess).interpreted(1, position).leaf(1).view());
  }
  const auto& process = aggregator_.samples(0).processes.at(kProcess);
  ASSERT_EQ(process.stacks.stacks().size(), 2U);
  EXPECT_EQ(process.stacks.stacks()[0].count, 2U);
  EXPECT_EQ(process.stacks.stacks()[0].user_frames, 2U);
}

}  // namespace
}  // namespace profd
