// The files of a session of off-cpu, runnable or wall.

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
    snapshot_.event = {.name = "off-cpu",
                       .unit = "microseconds",
                       .period = 1000,
                       .kind = EventKind::kOffCpu};
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

  std::string traces() {
    return test::output_of(std::string("HOME=/nonexistent PPROF_BINARY_PATH=/nonexistent ") +
                           GO_PPROF_BINARY +
                           " -symbolize=none -sample_index=off_cpu -unit=ms -traces " +
                           path(kNamedProfile).string());
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
  EXPECT_THAT(labels_of_sample(profile, 0), Contains(Pair("state", "S")));
  EXPECT_THAT(labels_of_sample(profile, 0), Contains(Pair("wait", "other")));
  EXPECT_THAT(labels_of_sample(profile, 0), Not(Contains(testing::Key("ongoing"))));
  EXPECT_THAT(labels_of_sample(profile, 1), Contains(Pair("state", "D")));
  EXPECT_THAT(labels_of_sample(profile, 1), Not(Contains(testing::Key("ongoing"))));
  EXPECT_THAT(labels_of_sample(profile, 2), Contains(Pair("state", "D")));
  EXPECT_THAT(labels_of_sample(profile, 2), Contains(Pair("ongoing", "yes")));
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
}

}  // namespace
}  // namespace profd
