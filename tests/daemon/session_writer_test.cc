#include "daemon/session_writer.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <limits>
#include <memory>
#include <string>

#include <gmock/gmock.h>

#include "daemon/object_images.h"
#include "daemon/profile_files.h"
#include "daemon/result_writer.h"
#include "formats/gperftools_reader.h"
#include "tests/daemon/chain_program.h"
#include "tests/daemon/local_parser.h"
#include "tests/daemon/synthetic_sample.h"

namespace profd {
namespace {

using test::ChainProgram;
using test::SyntheticSample;
using testing::Contains;
using testing::ElementsAre;
using testing::Key;
using testing::MatchesRegex;
using testing::Not;
using testing::Pair;
using testing::StartsWith;

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kBase = 0x555500000000;
constexpr ProcessKey kProcess{.tgid = 4321, .exec_id = 1, .start_ns = 100};

// Puts a session together by hand, writes it, and looks at the files.
class SessionWriterTest : public testing::Test {
 protected:
  SessionWriterTest() {
    snapshot_.session = "00c0ffee";
    snapshot_.event = {.name = "cpu",
                       .type = 0,
                       .config = 0,
                       .is_time = true,
                       .unit = "microseconds",
                       .frequency_hz = 99,
                       .period = 0};
  }

  ProcessSnapshot& add_process(const std::string& comm, const ProcessKey& key = kProcess) {
    ProcessSnapshot& process = snapshot_.processes.emplace_back();
    process.key = key;
    process.image.comm = comm;
    return process;
  }

  // The chain program as the executable, from a private copy.
  ChainProgram add_program(ProcessSnapshot& process, const std::string& name) {
    const std::filesystem::path copy = scratch_.path() / name;
    std::filesystem::copy_file(CHAIN_PROGRAM, copy);
    ChainProgram program(copy, kBase);
    process.image.executable = program.file()->key;
    process.image.mappings.emplace(1, program.mapping());
    return program;
  }

  void add_samples(ProcessSnapshot& process, SyntheticSample sample, int count = 1) {
    for (int i = 0; i < count; ++i) {
      const SampleView view = sample.view();
      process.samples.stacks.add(view, StackTable::hash_of(view), kNoLimit);
      ++snapshot_.samples;
      ++snapshot_.ledger.taken;
    }
  }

  // leaf < middle < outer < _start, each at the start or just after a call.
  static SyntheticSample chain(const ChainProgram& program) {
    return SyntheticSample(kProcess)
        .leaf(program.address("leaf"), 1)
        .user(program.address("middle", 5), 1)
        .user(program.address("outer", 5), 1)
        .user(program.address("_start", 5), 1);
  }

  SessionSummary write() {
    ResultWriter result = ResultWriter::create(scratch_.path()).value();
    const SessionSummary summary = write_session(snapshot_, *parser_, result).value();
    EXPECT_TRUE(result.commit("result"));
    return summary;
  }

  std::filesystem::path path(const std::string& name) { return scratch_.path() / "result" / name; }

  Profile profile(const std::string& name) {
    return decode_gperftools(test::read_file(path(name))).value();
  }

  std::vector<std::string> objects() {
    std::vector<std::string> names;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(path("objects"), none)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  // Both pprofs, run where the profile is, since "$build" is ".".
  void expect_both_readers(const std::string& name, const std::map<std::string, test::Row>& rows) {
    const std::filesystem::path before = std::filesystem::current_path();
    std::filesystem::current_path(path(""));
    EXPECT_EQ(test::go_report(name).rows, rows);
    EXPECT_EQ(test::perl_report(name).rows, rows);
    std::filesystem::current_path(before);
  }

  std::unique_ptr<Parser> parser_ = Parser::start().value();
  test::ScratchDirectory scratch_;
  SessionSnapshot snapshot_;
};

const std::map<std::string, test::Row> kChainRows = {
    {"leaf", {3, 3}}, {"middle", {0, 3}}, {"outer", {0, 3}}, {"_start", {0, 3}}};

TEST_F(SessionWriterTest, NamesAFileByItsPathWhereItIsTheOneThatRan) {
  ProcessSnapshot& process = add_process("chain");
  const ChainProgram program = add_program(process, "libchain.so");
  add_samples(process, chain(program), 3);
  const SessionSummary summary = write();
  ASSERT_EQ(summary.profiles.size(), 1U);
  EXPECT_EQ(summary.profiles[0].path, "chain.4321.prof");
  EXPECT_EQ(profile("chain.4321.prof").mappings.at(0).path, scratch_.path() / "libchain.so");
  EXPECT_THAT(objects(), ElementsAre());
  expect_both_readers("chain.4321.prof", kChainRows);
}

TEST_F(SessionWriterTest, CountsAStackThatReachesTheEntryPointAsComplete) {
  ProcessSnapshot& process = add_process("chain");
  const ChainProgram program = add_program(process, "libchain.so");
  add_samples(process, chain(program), 3);
  add_samples(process, SyntheticSample(kProcess).leaf(program.address("outer"), 1), 2);
  add_samples(process,
              SyntheticSample(kProcess)
                  .leaf(program.address("leaf"), 1)
                  .user(program.address("outer", 5), 1)
                  .end(PROFD_END_NO_FRAME_POINTER),
              4);
  add_samples(process, SyntheticSample(kProcess).leaf(0x1234).end(PROFD_END_PC_UNMAPPED));
  add_samples(process, SyntheticSample(kProcess)
                           .context(PROFD_CONTEXT_COMPAT)
                           .end(PROFD_END_NO_USER_STACK)
                           .kernel(0xffffffff81000001));
  add_samples(process, SyntheticSample(kProcess)
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

TEST_F(SessionWriterTest, CountsAStackThatTheRowsEndedAsCompleteWhereverItsRootIs) {
  ProcessSnapshot& process = add_process("chain");
  const ChainProgram program = add_program(process, "libchain.so");
  const auto ended = [&](profd_user_end end) {
    return SyntheticSample(kProcess)
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

// Each of these starts its function, where the byte before is another's.
TEST_F(SessionWriterTest, NamesWhatASignalInterruptedAndTheRestorerByTheirOwnAddress) {
  ProcessSnapshot& process = add_process("chain");
  const ChainProgram program = add_program(process, "libchain.so");
  add_samples(process,
              SyntheticSample(kProcess)
                  .leaf(program.address("leaf"), 1)
                  .user(program.address("middle"), 1, PROFD_FRAME_ROW)    // the restorer
                  .user(program.address("outer"), 1, PROFD_FRAME_SIGNAL)  // was interrupted
                  .user(program.address("_start", 5), 1, PROFD_FRAME_ROW)
                  .end(PROFD_END_ENTRY),
              3);
  write();
  expect_both_readers("chain.4321.prof", kChainRows);
}

TEST_F(SessionWriterTest, NamesTheFunctionsOfADeletedFileByAnImage) {
  ProcessSnapshot& process = add_process("chain");
  const ChainProgram program = add_program(process, "chain");
  std::filesystem::remove(scratch_.path() / "chain");
  add_samples(process, chain(program), 3);
  write();
  EXPECT_THAT(objects(), ElementsAre(MatchesRegex("chain-[0-9a-f]+-[0-9a-f]+\\.so")));
  EXPECT_THAT(profile("chain.4321.prof").mappings.at(0).path, StartsWith("$build/objects/chain-"));
  expect_both_readers("chain.4321.prof", kChainRows);
}

// As one that a file killed, or that ran out of its time.
class FailingParser final : public test::LocalParser {
 public:
  explicit FailingParser(bool has_summaries) : has_summaries_(has_summaries) {}
  Result<ElfSummary> read_elf_summary(int fd) override {
    if (has_summaries_) return LocalParser::read_elf_summary(fd);
    return fail(ErrorCode::kUnavailable, "the parser died");
  }
  Result<std::vector<ElfSymbol>> find_elf_symbols(int, std::span<const std::uint64_t>,
                                                  SymbolBudget&) override {
    return fail(ErrorCode::kTimeout, "the file takes too much time to parse");
  }

 private:
  bool has_summaries_;
};

TEST_F(SessionWriterTest, WritesEverySampleWhereTheParserFails) {
  ProcessSnapshot& process = add_process("chain");
  const ChainProgram program = add_program(process, "chain");
  std::filesystem::remove(scratch_.path() / "chain");
  add_samples(process, chain(program), 3);
  for (const bool has_summaries : {true, false}) {
    std::filesystem::remove_all(path(""));
    parser_ = std::make_unique<FailingParser>(has_summaries);
    const SessionSummary summary = write();
    EXPECT_EQ(summary.ledger.written, 3U);
    EXPECT_EQ(summary.ledger.difference(), 0);
    EXPECT_EQ(objects().size(), has_summaries ? 1U : 0U) << "an image, without names";
    const std::string line = profile("chain.4321.prof").mappings.at(0).path;
    EXPECT_EQ(line.starts_with(has_summaries ? "$build/objects/" : "[chain"), true) << line;
  }
}

TEST_F(SessionWriterTest, WritesOnWhenTheParserWasKilled) {
  ProcessSnapshot& process = add_process("chain");
  const ChainProgram program = add_program(process, "chain");
  add_samples(process, chain(program), 3);
  ASSERT_EQ(::kill(parser_->child(), SIGKILL), 0);
  EXPECT_EQ(write().ledger.written, 3U);
}

TEST_F(SessionWriterTest, WritesImagesBeyondTheirLimitsWithoutSymbols) {
  struct Case {
    std::uint64_t image_bytes;
    SymbolBudget symbols;
    bool named;
  };
  ProcessSnapshot& process = add_process("chain");
  const ChainProgram program = add_program(process, "chain");
  ASSERT_EQ(::chown((scratch_.path() / "chain").c_str(), 65534, 65534), 0);
  std::filesystem::remove(scratch_.path() / "chain");
  const Mapping mapping = program.mapping();
  int number = 0;
  for (const Case& c : {Case{1 << 20, {}, true}, Case{100, {}, false},
                        Case{1 << 20, {.table_bytes = 10, .time = std::chrono::hours(1)}, false},
                        Case{1 << 20, {.table_bytes = 1 << 20, .time = {}}, false}}) {
    ObjectImages images(*parser_, "6.1");
    images.find_or_add(mapping, true)
        .hit(program.address("leaf") - mapping.start + mapping.file_offset);
    ResultWriter result = ResultWriter::create(scratch_.path()).value();
    SymbolBudgets symbols(c.symbols);
    ASSERT_TRUE(images.write(result, c.image_bytes, symbols));
    ASSERT_EQ(result.files().size(), 1U);
    const std::string image = result.read_back(result.files()[0].path).value();
    EXPECT_EQ(image.find("leaf") != image.npos, c.named) << number++;
  }
}

// As MappedFiles leaves it where too many descriptors are held.
MappedFile without_descriptor(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  MappedFile file{.key = test::open_mapped(path)->key, .path = path};
  file.stat_device = status.st_dev;
  file.stat_inode = status.st_ino;
  file.stat_ctime_ns = file.key.ctime_ns;
  return file;
}

TEST_F(SessionWriterTest, NamesAFileWithoutDescriptorByItsPathWhileItStaysTheSame) {
  const std::string path = scratch_.write("libx.so", "1");
  Mapping mapping;
  mapping.kind = PROFD_MAPPING_FILE;
  mapping.file = std::make_shared<const MappedFile>(without_descriptor(path));
  EXPECT_EQ(ObjectImages(*parser_, "6.1").find_or_add(mapping, false).line_path(), path);
  MappedFile deleted = without_descriptor(path);
  deleted.deleted = true;
  mapping.file = std::make_shared<const MappedFile>(std::move(deleted));
  EXPECT_EQ(ObjectImages(*parser_, "6.1").find_or_add(mapping, false).line_path(), "[libx.so]");
  mapping.file = std::make_shared<const MappedFile>(without_descriptor(path));
  std::filesystem::rename(scratch_.write("other", "2"), path);
  EXPECT_EQ(ObjectImages(*parser_, "6.1").find_or_add(mapping, false).line_path(), "[libx.so]");
}

TEST_F(SessionWriterTest, NamesTheFunctionsOfAReplacedFileByAnImage) {
  ProcessSnapshot& process = add_process("chain");
  const ChainProgram program = add_program(process, "chain");
  std::filesystem::remove(scratch_.path() / "chain");
  std::filesystem::copy_file("/bin/true", scratch_.path() / "chain");
  add_samples(process, chain(program), 3);
  write();
  EXPECT_EQ(objects().size(), 1U);
  expect_both_readers("chain.4321.prof", kChainRows);
}

TEST_F(SessionWriterTest, NamesTheFunctionsOfAPathWithBlanksByAnImage) {
  ProcessSnapshot& process = add_process("chain");
  const ChainProgram program = add_program(process, "my chain");
  add_samples(process, chain(program), 3);
  write();
  EXPECT_THAT(objects(), ElementsAre(MatchesRegex("my_chain-[0-9a-f]+-[0-9a-f]+\\.so")));
  expect_both_readers("chain.4321.prof", kChainRows);
}

TEST_F(SessionWriterTest, DoesNotTrustBytesThatWereWrittenAfterTheSample) {
  ProcessSnapshot& process = add_process("chain");
  const ChainProgram program = add_program(process, "chain");
  const timespec times[] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT},
                            {.tv_sec = 4'000'000'000, .tv_nsec = 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (scratch_.path() / "chain").c_str(), times, 0), 0);
  add_samples(process, chain(program), 3);
  write();
  EXPECT_THAT(objects(), ElementsAre());
  EXPECT_EQ(profile("chain.4321.prof").mappings.at(0).path, "[chain]");
}

TEST_F(SessionWriterTest, SkipsAFileThatIsNoElfFile) {
  const std::string text = scratch_.write("script with blanks", "#!/bin/sh\n");
  ProcessSnapshot& process = add_process("script");
  const auto file = test::open_mapped(text);
  process.image.mappings.emplace(1, Mapping{.start = 0x1000,
                                            .limit = 0x2000,
                                            .file_offset = 0,
                                            .time_ns = 1,
                                            .kind = PROFD_MAPPING_FILE,
                                            .file_key = file->key,
                                            .file = file});
  add_samples(process, SyntheticSample(kProcess).leaf(0x1010, 1), 3);
  const SessionSummary summary = write();
  EXPECT_EQ(summary.profiles.at(0).samples, 3U);
  EXPECT_EQ(profile("script.4321.prof").mappings.at(0).path, "[script_with_blanks]");
}

TEST_F(SessionWriterTest, NamesBothObjectsThatHadOneAddress) {
  ProcessSnapshot& process = add_process("chain");
  const ChainProgram program = add_program(process, "libchain.so");
  std::filesystem::copy_file(CHAIN_PROGRAM, scratch_.path() / "libother.so");
  const ChainProgram other(scratch_.path() / "libother.so", kBase);
  process.image.mappings.emplace(2, other.mapping(2));
  add_samples(process, SyntheticSample(kProcess).leaf(program.address("leaf"), 1), 3);
  add_samples(process, SyntheticSample(kProcess).leaf(other.address("middle"), 2), 2);
  write();
  expect_both_readers("chain.4321.prof", {{"leaf", {3, 3}}, {"middle", {2, 2}}});
}

TEST_F(SessionWriterTest, GivesAnExactCallerToItsOwnFunction) {
  // A page fault on a function's first instruction: one less would be the function before.
  ProcessSnapshot& process = add_process("chain");
  snapshot_.hide_kernel = true;
  const ChainProgram program = add_program(process, "libchain.so");
  add_samples(process,
              SyntheticSample(kProcess)
                  .kernel(0xffffffff81000001)
                  .leaf(program.address("middle"), 1)
                  .user(program.address("outer", 5), 1),
              3);
  write();
  expect_both_readers("chain.4321.prof",
                      {{"[kernel]", {3, 3}}, {"middle", {0, 3}}, {"outer", {0, 3}}});
}

TEST_F(SessionWriterTest, HidesEveryKernelAddressFromACallerWithoutRights) {
  ProcessSnapshot& process = add_process("chain");
  snapshot_.hide_kernel = true;
  const ChainProgram program = add_program(process, "libchain.so");
  const std::uint64_t secrets[] = {0xffffffff9a123456, 0xffffffff9a654321, 0xffffffffc0777777};
  SyntheticSample sample(kProcess);
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

TEST_F(SessionWriterTest, NamesKernelFunctionsAsKallsymsDoes) {
  const std::string line = test::output_of("grep -m1 ' T vfs_read$' /proc/kallsyms");
  const std::uint64_t vfs_read = std::stoull(line, nullptr, 16);
  ASSERT_NE(vfs_read, 0U) << "kernel.kptr_restrict hides the symbols";
  ProcessSnapshot& process = add_process("reader");
  add_samples(process,
              SyntheticSample(kProcess).kernel(vfs_read + 4).context(PROFD_CONTEXT_KTHREAD), 3);
  const SessionSummary summary = write();
  EXPECT_EQ(summary.profiles.at(0).kernel_only_samples, 3U);
  expect_both_readers("reader.4321.prof", {{"vfs_read", {3, 3}}});
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
    EXPECT_EQ(write_session(snapshot_, *parser_, result).value().profiles.at(0).path, expected);
  }
}

TEST_F(SessionWriterTest, LedgerHasEachTermCountedByItself) {
  ProcessSnapshot& process = add_process("x");
  add_samples(process, SyntheticSample(kProcess).leaf(0x1000), 10);
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

TEST_F(SessionWriterTest, WritesTheVdsoAsAnImage) {
  ProcessSnapshot& process = add_process("clock");
  process.image.mappings.emplace(1, Mapping{.start = 0x7fff00000000,
                                            .limit = 0x7fff00002000,
                                            .file_offset = 0,
                                            .time_ns = 1,
                                            .kind = PROFD_MAPPING_VDSO,
                                            .file_key = {},
                                            .file = nullptr});
  add_samples(process, SyntheticSample(kProcess).leaf(0x7fff00000800, 1));
  write();
  EXPECT_THAT(objects(), ElementsAre(MatchesRegex("vdso-.*\\.so")));
}

struct PeriodCase {
  bool is_time;
  std::uint64_t frequency_hz;
  std::uint64_t period;
  std::uint64_t expected;
};

TEST_F(SessionWriterTest, HeaderHasTheTruePeriod) {
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
