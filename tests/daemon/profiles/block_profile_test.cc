// The files of a session of off-cpu, runnable or wall.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include <gmock/gmock.h>

#include "daemon/storage/result_store.h"
#include "formats/profile/block_names.h"
#include "formats/profile/pprof_reader.h"
#include "tests/daemon/profiles/session_writer_fixture.h"

namespace profd {
namespace {

using test::ChainProgram;
using test::kProgram;
using test::SessionWriterTest;
using test::SyntheticSample;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

class BlockProfileTest : public SessionWriterTest {
 protected:
  BlockProfileTest() {
    snapshot_.event = {
        .name = "off-cpu", .unit = "microseconds", .period = 1000, .kind = EventKind::kOffCpu};
    snapshot_.ledger.blocks.emplace();
  }

  void add_block(ProcessSnapshot& process, SyntheticSample sample) {
    const SampleView view = sample.view();
    process.samples.stacks.add(view, StackTable::hash_of(view), test::kNoLimit);
    snapshot_.samples += view.count;
    BlockTerm& delivered = snapshot_.ledger.blocks->delivered;
    delivered.blocks += view.count;
    delivered.ns += view.block.ns;
  }

  PprofProfile named() {
    auto profile = decode_pprof(test::read_file(path(kNamedProfile)));
    EXPECT_TRUE(profile.has_value());
    return std::move(*profile);
  }

  static std::map<std::string, std::string> labels_of_sample(const PprofProfile& profile,
                                                             std::size_t sample) {
    std::map<std::string, std::string> labels;
    for (const PprofLabel& label : profile.labels(profile.samples()[sample].labels)) {
      labels.emplace(profile.text(label.key), profile.text(label.text));
    }
    return labels;
  }

  // The samples of a profile have no order.
  static std::size_t sample_of_time(const PprofProfile& profile, std::int64_t ns) {
    std::size_t sample = 0;
    while (sample < profile.samples().size() && profile.values(sample).back() != ns) ++sample;
    return sample;
  }

  static std::map<std::string, std::string> labels_of_time(const PprofProfile& profile,
                                                           std::int64_t ns) {
    const std::size_t sample = sample_of_time(profile, ns);
    EXPECT_LT(sample, profile.samples().size()) << ns;
    if (sample == profile.samples().size()) return {};
    return labels_of_sample(profile, sample);
  }

  std::string traces() {
    return test::output_of(
        std::string("HOME=/nonexistent PPROF_BINARY_PATH=/nonexistent ") + GO_PPROF_BINARY +
        " -symbolize=none -sample_index=off_cpu -unit=ms -traces " + path(kNamedProfile).string());
  }
};

TEST_F(BlockProfileTest, TheValuesAreBlocksAndNanoseconds) {
  ProcessSnapshot& process = add_process("chain");
  const ChainProgram program = add_program(process, "libchain.so");
  add_block(process, chain(program).block(PROFD_BLOCK_SLEEPING, 10'000'001));
  add_block(process, chain(program).block(PROFD_BLOCK_SLEEPING, 20'000'001, 7));
  write();
  const PprofProfile profile = named();
  EXPECT_THAT(profile.sample_types(), ElementsAre(PprofValueType{"blocks", "count"},
                                                  PprofValueType{"off_cpu", "nanoseconds"}));
  EXPECT_EQ(profile.default_sample_type, "off_cpu");
  EXPECT_EQ(profile.period_type, (PprofValueType{"off_cpu", "nanoseconds"}));
  EXPECT_EQ(profile.period, 1);
  ASSERT_EQ(profile.samples().size(), 1U);
  EXPECT_THAT(profile.values(0), ElementsAre(8, 30'000'002));
}

// Finds: a sum, the time of what a block stands for, a label by which samples differ, and one of
// ticks.
TEST_F(BlockProfileTest, ASampleHasItsLongestBlock) {
  snapshot_.event = {
      .name = "wall", .unit = "microseconds", .frequency_hz = 100, .kind = EventKind::kWall};
  ProcessSnapshot& process = add_process("chain");
  const ChainProgram program = add_program(process, "libchain.so");
  add_block(process, chain(program).block(PROFD_BLOCK_SLEEPING, 20'000'000, 1'000));
  add_block(process, chain(program).block(PROFD_BLOCK_SLEEPING, 3'000'000'000));
  add_block(process, chain(program).block(PROFD_BLOCK_SLEEPING, 1'000'000));
  add_block(process, chain(program).block(PROFD_BLOCK_NONE, 10'000'000));
  BlockTerm& delivered = snapshot_.ledger.blocks->delivered;  // ticks are not among these
  delivered.blocks -= 1;
  delivered.ns -= 10'000'000;
  snapshot_.tick_ns = 10'000'000;
  write();
  const PprofProfile profile = named();
  ASSERT_EQ(profile.samples().size(), 2U);
  EXPECT_EQ(profile.longest(sample_of_time(profile, 3'021'000'000)), 3'000'000'000);
  EXPECT_EQ(profile.longest(sample_of_time(profile, 10'000'000)), 0);
  EXPECT_THAT(
      test::output_of(std::string("HOME=/nonexistent PPROF_BINARY_PATH=/nonexistent ") +
                      GO_PPROF_BINARY + " -symbolize=none -raw " + path(kNamedProfile).string()),
      HasSubstr("longest:[3000000000 nanoseconds]"));
}

TEST_F(BlockProfileTest, RunnableHasItsOwnType) {
  snapshot_.event.name = "runnable";
  snapshot_.event.kind = EventKind::kRunnable;
  ProcessSnapshot& process = add_process("chain");
  add_block(process, SyntheticSample(kProgram).leaf(1).block(PROFD_BLOCK_RUNNABLE, 5'000));
  write();
  const PprofProfile profile = named();
  EXPECT_THAT(profile.sample_types(), ElementsAre(PprofValueType{"blocks", "count"},
                                                  PprofValueType{"runnable", "nanoseconds"}));
  EXPECT_THAT(labels_of_sample(profile, 0), Contains(Pair("state", "runnable")));
  EXPECT_THAT(labels_of_sample(profile, 0), Contains(Pair("wait", "-")));
}

// Finds: labels of one state that all samples of the process have.
TEST_F(BlockProfileTest, TheLabelsSayHowTheThreadWaited) {
  ProcessSnapshot& process = add_process("chain");
  const auto sample = [] { return SyntheticSample(kProgram).leaf(0x1234); };
  add_block(process, sample().block(PROFD_BLOCK_SLEEPING, 1'000));
  add_block(process, sample().block(PROFD_BLOCK_DISK, 2'000));
  add_block(process, sample().block(PROFD_BLOCK_DISK, 3'000).ongoing());
  write();
  const PprofProfile profile = named();
  ASSERT_EQ(profile.samples().size(), 3U);
  const auto asleep = labels_of_time(profile, 1'000);
  EXPECT_THAT(asleep, Contains(Pair("state", "S")));
  EXPECT_THAT(asleep, Contains(Pair("wait", "other")));
  EXPECT_THAT(asleep, Not(Contains(testing::Key("ongoing"))));
  const auto at_disk = labels_of_time(profile, 2'000);
  EXPECT_THAT(at_disk, Contains(Pair("state", "D")));
  EXPECT_THAT(at_disk, Not(Contains(testing::Key("ongoing"))));
  const auto ongoing = labels_of_time(profile, 3'000);
  EXPECT_THAT(ongoing, Contains(Pair("state", "D")));
  EXPECT_THAT(ongoing, Contains(Pair("ongoing", "yes")));
}

TEST_F(BlockProfileTest, ABlockWithoutUserStackSaysWhy) {
  ProcessSnapshot& process = add_process("chain");
  const ChainProgram program = add_program(process, "libchain.so");
  const auto leaf = [&program] {
    return SyntheticSample(kProgram).leaf(program.address("leaf"), 1);
  };
  add_block(process, leaf().block(PROFD_BLOCK_SLEEPING, 9'000'000).end(PROFD_END_NOT_TAKEN));
  add_block(process, leaf().block(PROFD_BLOCK_SLEEPING, 7'000'000).end(PROFD_END_BEFORE_START));
  const SessionSummary summary = write();
  const std::string text = traces();
  EXPECT_THAT(text, HasSubstr("9ms   leaf\n             [stack not taken]\n"));
  EXPECT_THAT(text, HasSubstr("7ms   leaf\n             [blocked before the start]\n"));
  EXPECT_THAT(summary.profiles.at(0).incomplete,
              ElementsAre(Pair("before_start", 1), Pair("not_taken", 1)));
  expect_both_readers("chain.4321.prof", {{"leaf", {16'000, 16'000}},
                                          {"[stack not taken]", {0, 9'000}},
                                          {"[blocked before the start]", {0, 7'000}}});
}

// Finds: ticks without a time, a root that all stacks share, and a period of the CPU's ticks.
TEST_F(BlockProfileTest, WallClockTimeHasARootForEachState) {
  snapshot_.event = {
      .name = "wall", .unit = "microseconds", .frequency_hz = 100, .kind = EventKind::kWall};
  ProcessSnapshot& process = add_process("chain");
  const ChainProgram program = add_program(process, "libchain.so");
  const auto leaf = [&program] {
    return SyntheticSample(kProgram).leaf(program.address("leaf"), 1);
  };
  add_block(process, leaf().block(PROFD_BLOCK_NONE, 10'000'000));
  snapshot_.ledger.blocks->delivered = {};  // ticks are not among these
  snapshot_.tick_ns = 10'000'000;
  add_block(process, leaf().block(PROFD_BLOCK_SLEEPING, 4'000'000));
  add_block(process, leaf().block(PROFD_BLOCK_DISK, 2'000'000));
  add_block(process, leaf().block(PROFD_BLOCK_RUNNABLE, 1'000'000));
  snapshot_.ledger.lost[PROFD_LOSS_RING_FULL] = 5;  // three of them starts of blocks
  snapshot_.ledger.blocks->lost[PROFD_LOSS_RING_FULL] = {3, 600'000};
  const SessionSummary summary = write();
  EXPECT_EQ(summary.period_us, 1U);
  EXPECT_EQ(summary.ledger.written, 17'000U);
  EXPECT_THAT(summary.ledger.lost, ElementsAre(Pair("ring_full", 20'600)));
  EXPECT_EQ(summary.ledger.difference(), 0);
  expect_both_readers("chain.4321.prof", {{"leaf", {17'000, 17'000}},
                                          {"[on CPU]", {0, 10'000}},
                                          {"[blocked]", {0, 6'000}},
                                          {"[runnable]", {0, 1'000}}});
  const PprofProfile profile = named();
  EXPECT_THAT(profile.sample_types(), ElementsAre(PprofValueType{"samples", "count"},
                                                  PprofValueType{"wall", "nanoseconds"}));
  ASSERT_EQ(profile.samples().size(), 4U);
  EXPECT_THAT(labels_of_time(profile, 10'000'000), Contains(Pair("state", "running")));
  EXPECT_EQ(profile.values(sample_of_time(profile, 10'000'000)).front(), 1);
}

// Finds: counts of blocks in a file that readers take for microseconds, and times whose rests are
// dropped: each stack has 600 ns beside its microseconds, and both together 1,200.
TEST_F(BlockProfileTest, TheGperftoolsFileCountsMicroseconds) {
  ProcessSnapshot& process = add_process("chain");
  const ChainProgram program = add_program(process, "libchain.so");
  add_block(process, chain(program).block(PROFD_BLOCK_SLEEPING, 2'000'600, 1'000));
  add_block(process, SyntheticSample(kProgram)
                         .leaf(program.address("outer"), 1)
                         .block(PROFD_BLOCK_DISK, 1'000'600));
  const SessionSummary summary = write();
  EXPECT_EQ(summary.period_us, 1U);
  EXPECT_EQ(summary.period_unit, "microseconds");
  EXPECT_EQ(summary.profiles.at(0).samples, 3'001U);
  EXPECT_EQ(summary.profiles.at(0).user_samples, 1'001U);
  EXPECT_EQ(summary.ledger.taken, 3'001U);
  EXPECT_EQ(summary.ledger.written, 3'001U);
  EXPECT_EQ(summary.ledger.difference(), 0);
  EXPECT_EQ(profile("chain.4321.prof").period, 1U);
  expect_both_readers("chain.4321.prof", {{"leaf", {2'000, 2'000}},
                                          {"middle", {0, 2'000}},
                                          {"outer", {1'001, 3'001}},
                                          {"_start", {0, 2'000}}});
}

// Finds: rests that begin anew with each process, and a difference of a microsecond by them.
TEST_F(BlockProfileTest, NoTimeIsLostByRounding) {
  for (std::uint32_t pid = 1; pid <= 7; ++pid) {
    ProcessSnapshot& process = add_process("p", {.tgid = pid, .exec_id = 1, .start_ns = 1});
    for (std::uint64_t address = 1; address <= 5; ++address) {
      add_block(process, SyntheticSample(kProgram)
                             .leaf(address * 16)
                             .block(PROFD_BLOCK_SLEEPING, 100 * pid + address));
    }
  }
  BlockLedger& blocks = *snapshot_.ledger.blocks;
  blocks.lost[PROFD_LOSS_RING_FULL] = {3, 1'999};
  blocks.lost[PROFD_LOSS_RING_SHARE] = {1, 999};
  blocks.no_room = {2, 700};
  snapshot_.refused = 4;
  snapshot_.refused_ns = 900;
  blocks.delivered.blocks += 4;
  blocks.delivered.ns += 900;
  const SessionLedger ledger = write().ledger;
  // 5 * 100 * 28 + 7 * 15 = 14,105 ns in the files.
  EXPECT_EQ(ledger.written, 14U);
  EXPECT_EQ(ledger.taken, (14'105U + 900 + 700 + 1'999 + 999) / 1000);
  EXPECT_EQ(ledger.difference(), 0);
  EXPECT_THAT(ledger.lost,
              ElementsAre(Pair("memory_limit", 1), Pair("ring_full", 2), Pair("ring_share", 1)));
}

// Finds: a sum that is computed from another term: each has a value of its own.
TEST_F(BlockProfileTest, TheSummaryHasTheTermsOfTheKernel) {
  BlockLedger& blocks = *snapshot_.ledger.blocks;
  blocks.blocked = {1'000, 9'002'700};
  blocks.sampled = {100, 5'000'900};
  blocks.long_unsampled = {10, 3'000'900};
  blocks.short_unsampled = {880, 1'000'400};
  blocks.lost[PROFD_LOSS_RING_FULL] = {9, 300};
  blocks.lost[PROFD_LOSS_NO_RING] = {1, 200};
  blocks.by_weight = {980, 4'000'000};
  blocks.from_before = {2, 6'000'000};
  blocks.ongoing = {3, 7'000'000};
  blocks.no_start = 11;
  blocks.no_room = {12, 0};
  const BlockSummary summary = write().blocks.value();
  EXPECT_EQ(summary.blocked, (BlockSummary::Term{1'000, 9'002}));
  EXPECT_EQ(summary.sampled, (BlockSummary::Term{100, 5'000}));
  EXPECT_EQ(summary.long_unsampled, (BlockSummary::Term{10, 3'001}));
  EXPECT_EQ(summary.short_unsampled, (BlockSummary::Term{880, 1'001}));
  EXPECT_EQ(summary.lost, (BlockSummary::Term{10, 0}));
  EXPECT_EQ(summary.difference(), 0) << "each term is rounded, and their sum is that of all";
  EXPECT_EQ(summary.by_weight, (BlockSummary::Term{980, 4'000}));
  EXPECT_EQ(summary.from_before, (BlockSummary::Term{2, 6'000}));
  EXPECT_EQ(summary.ongoing, (BlockSummary::Term{3, 7'000}));
  EXPECT_THAT(summary.incomplete, ElementsAre(Pair("no_room", 12), Pair("no_start", 11)));
}

TEST_F(BlockProfileTest, ASessionOfTicksHasNoTermsOfBlocks) {
  snapshot_ = test::handmade_session();
  add_samples(add_process("chain"), SyntheticSample(kProgram).leaf(1));
  EXPECT_FALSE(write().blocks);
}

}  // namespace
}  // namespace profd
