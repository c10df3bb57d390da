#include <signal.h>

#include <cstdint>
#include <string>
#include <utility>

#include <gmock/gmock.h>

#include "daemon/profiles/profile_files.h"
#include "daemon/storage/result_store.h"
#include "daemon/storage/result_writer.h"
#include "tests/daemon/profiles/session_writer_fixture.h"

namespace profd {
namespace {

using test::ChainProgram;
using test::kChainRows;
using test::kProgram;
using test::SessionWriterTest;
using test::SyntheticSample;
using testing::ElementsAre;
using testing::Not;
using testing::Pair;

TEST_F(SessionWriterTest, CountsAStackThatReachesTheEntryPointAsComplete) {
  ProcessSnapshot& process = add_process("chain");
  const ChainProgram program = add_program(process, "libchain.so");
  add_samples(process, chain(program), 3);
  add_samples(process, SyntheticSample(kProgram).leaf(program.address("outer"), 1), 2);
  add_samples(process,
              SyntheticSample(kProgram)
                  .leaf(program.address("leaf"), 1)
                  .user(program.address("outer", 5), 1)
                  .end(PROFD_END_NO_FRAME_POINTER),
              4);
  add_samples(process, SyntheticSample(kProgram).leaf(0x1234).end(PROFD_END_PC_UNMAPPED));
  add_samples(process, SyntheticSample(kProgram)
                           .context(PROFD_CONTEXT_COMPAT)
                           .end(PROFD_END_NO_USER_STACK)
                           .kernel(0xffffffff81000001));
  add_samples(process, SyntheticSample(kProgram)
                           .context(PROFD_CONTEXT_EXIT)
                           .end(PROFD_END_NO_USER_STACK)
                           .kernel(0xffffffff81000001));
  const SessionSummary summary = write();
  const ProfileSummary& written = summary.profiles.at(0);
  EXPECT_EQ(written.samples, 12U);
  EXPECT_EQ(written.user_samples, 11U);
  EXPECT_EQ(written.complete_samples, 3U);
  EXPECT_EQ(written.kernel_only_samples, 1U);
  EXPECT_THAT(written.incomplete, ElementsAre(Pair("32_bit", 1), Pair("frame_pointer_zero", 2),
                                              Pair("no_frame_pointer", 4), Pair("pc_unmapped", 1)));
}

// The profile with names finds its name taken.
TEST_F(SessionWriterTest, ASessionThatCannotBeWrittenLeavesNoSymbolizer) {
  ProcessSnapshot& process = add_process("chain");
  const ChainProgram program = add_program(process, "libchain.so");
  add_samples(process, chain(program), 3);
  ResultWriter result = ResultWriter::create(scratch_.path()).value();
  ASSERT_TRUE(result.add(kNamedProfile, "another"));
  ASSERT_FALSE(write_session(snapshot_, *naming_, result));
  EXPECT_GT(naming_->stats().looked_up, 0U);
  EXPECT_EQ(naming_->symbolizer(), -1);
}

TEST_F(SessionWriterTest, CountsAStackThatTheRowsEndedAsCompleteAnywhere) {
  ProcessSnapshot& process = add_process("chain");
  const ChainProgram program = add_program(process, "libchain.so");
  const auto ended = [&](profd_user_end end) {
    return SyntheticSample(kProgram)
        .leaf(program.address("leaf"), 1)
        .user(program.address("outer", 5), 1, PROFD_FRAME_ROW)
        .end(end);
  };
  add_samples(process, ended(PROFD_END_ENTRY), 5);
  add_samples(process, ended(PROFD_END_NO_ROW), 2);
  const ProfileSummary written = write().profiles.at(0);
  EXPECT_EQ(written.complete_samples, 5U);
  EXPECT_THAT(written.incomplete, ElementsAre(Pair("no_row", 2)));
}

// Each of these is the first byte of a function. The byte before it belongs to another function.
TEST_F(SessionWriterTest, NamesInterruptedFramesAndTheRestorerByTheirOwnAddress) {
  ProcessSnapshot& process = add_process("chain");
  const ChainProgram program = add_program(process, "libchain.so");
  add_samples(process,
              SyntheticSample(kProgram)
                  .leaf(program.address("leaf"), 1)
                  .user(program.address("middle"), 1, PROFD_FRAME_ROW)    // the restorer
                  .user(program.address("outer"), 1, PROFD_FRAME_SIGNAL)  // was interrupted
                  .user(program.address("_start", 5), 1, PROFD_FRAME_ROW)
                  .end(PROFD_END_ENTRY),
              3);
  write();
  expect_both_readers("chain.4321.prof", kChainRows);
}

TEST_F(SessionWriterTest, GivesAnExactCallerToItsOwnFunction) {
  // A page fault on a function's first instruction: one less would be the function before.
  ProcessSnapshot& process = add_process("chain");
  snapshot_.hide_kernel = true;
  const ChainProgram program = add_program(process, "libchain.so");
  add_samples(process,
              SyntheticSample(kProgram)
                  .kernel(0xffffffff81000001)
                  .leaf(program.address("middle"), 1)
                  .user(program.address("outer", 5), 1),
              3);
  write();
  expect_both_readers("chain.4321.prof",
                      {{"[kernel]", {3, 3}}, {"middle", {0, 3}}, {"outer", {0, 3}}});
}

TEST_F(SessionWriterTest, HidesEveryKernelAddressFromAnUnprivilegedCaller) {
  ProcessSnapshot& process = add_process("chain");
  snapshot_.hide_kernel = true;
  const ChainProgram program = add_program(process, "libchain.so");
  const std::uint64_t secrets[] = {0xffffffff9a123456, 0xffffffff9a654321, 0xffffffffc0777777};
  SyntheticSample sample(kProgram);
  for (const std::uint64_t secret : secrets) sample.kernel(secret);
  add_samples(process, sample.leaf(program.address("leaf"), 1), 3);
  write();
  const Profile written = profile("chain.4321.prof");
  ASSERT_EQ(written.records().size(), 1U);
  EXPECT_EQ(written.records()[0].depth, 2U);
  const std::string files =
      test::read_file(path("chain.4321.prof")) + test::read_file(path("objects/kernel.so"));
  for (const std::uint64_t secret : secrets) {
    for (const std::uint64_t shown :
         {secret, secret - 1, fold_kernel_address(secret), fold_kernel_address(secret) - 1}) {
      const std::string bytes(reinterpret_cast<const char*>(&shown), 6);
      EXPECT_THAT(files, Not(testing::HasSubstr(bytes)));
    }
  }
  expect_both_readers("chain.4321.prof", {{"[kernel]", {3, 3}}, {"leaf", {0, 3}}});
}

TEST_F(SessionWriterTest, NumbersASecondImageOfTheSameName) {
  const ProcessKey keys[] = {{.tgid = 9, .exec_id = 1, .start_ns = 1},
                             {.tgid = 9, .exec_id = 2, .start_ns = 1},
                             {.tgid = 9, .exec_id = 1, .start_ns = 8}};
  for (const ProcessKey& key : keys) {
    add_samples(add_process("sh", key), SyntheticSample(key).leaf(0x1000));
  }
  const SessionSummary summary = write();
  EXPECT_EQ(summary.profiles.at(0).path, "sh.9.prof");
  EXPECT_EQ(summary.profiles.at(1).path, "sh.9.2.prof");
  EXPECT_EQ(summary.profiles.at(2).path, "sh.9.3.prof");
}

TEST_F(SessionWriterTest, MakesAFileNameOfAnyProcessName) {
  const std::pair<const char*, const char*> table[] = {
      {"../../etc", "_._.._etc.1.prof"},
      {".hidden", "_hidden.1.prof"},
      {"a b/c", "a_b_c.1.prof"},
      {"\x1b[2J\n", "__2J_.1.prof"},
      {"kworker/0:1+ev", "kworker_0_1+ev.1.prof"},
  };
  for (const auto& [comm, expected] : table) {
    snapshot_.processes.clear();
    const ProcessKey key{.tgid = 1, .exec_id = 1, .start_ns = 1};
    add_samples(add_process(comm, key), SyntheticSample(key).leaf(0x1000));
    ResultWriter result = ResultWriter::create(scratch_.path()).value();
    EXPECT_EQ(write_session(snapshot_, *naming_, result).value().profiles.at(0).path, expected);
  }
}

TEST_F(SessionWriterTest, CountsEachTermOfTheLedgerByItself) {
  ProcessSnapshot& process = add_process("x");
  add_samples(process, SyntheticSample(kProgram).leaf(0x1000), 10);
  snapshot_.ledger.taken = 20;
  snapshot_.ledger.lost[static_cast<std::size_t>(Loss::kRingFull)] = 4;
  snapshot_.refused = 3;
  const SessionLedger ledger = write().ledger;
  EXPECT_EQ(ledger.taken, 20U);
  EXPECT_EQ(ledger.written, 10U);
  EXPECT_THAT(ledger.lost, ElementsAre(Pair(loss_name(Loss::kMemoryLimit), 3),
                                       Pair(loss_name(Loss::kRingFull), 4)));
  EXPECT_EQ(ledger.difference(), 3);
}

struct PeriodCase {
  bool is_time;
  std::uint64_t frequency_hz;
  std::uint64_t period;
  std::uint64_t expected;
};

TEST_F(SessionWriterTest, WritesTheTruePeriodIntoTheHeader) {
  const PeriodCase table[] = {
      {true, 99, 0, 10101},          {true, 19, 0, 52632},
      {true, 1000, 0, 1000},         {true, 3'000'000, 0, 1},
      {true, 0, 10'000'000, 10'000}, {true, 0, 1, 1},
      {false, 0, 100, 100},          {false, 99, 0, 25},  // 250 events in 10 samples
  };
  for (const PeriodCase& row : table) {
    snapshot_.event.is_time = row.is_time;
    snapshot_.event.frequency_hz = row.frequency_hz;
    snapshot_.event.period = row.period;
    snapshot_.samples = 10;
    snapshot_.period_sum = 250;
    EXPECT_EQ(period_of(snapshot_), row.expected);
  }
}

}  // namespace
}  // namespace profd
