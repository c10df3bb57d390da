// Profiles of samples in JIT code, as both pprofs show them.

#include <fcntl.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <string>

#include <gmock/gmock.h>

#include "daemon/profiles/profile_files.h"
#include "daemon/storage/result_store.h"
#include "daemon/storage/result_writer.h"
#include "formats/profile/gperftools_reader.h"
#include "tests/daemon/local_parser.h"
#include "tests/daemon/profiles/chain_program.h"
#include "tests/daemon/profiles/handmade_session.h"
#include "tests/daemon/samples/synthetic_sample.h"
#include "tests/daemon/storage/unpacked_result.h"
#include "tests/formats/jit/jitdump_writer.h"

namespace profd {
namespace {

using test::SyntheticSample;

constexpr ProcessKey kRuntime{.tgid = 4321, .exec_id = 1, .start_ns = 100};
constexpr std::uint64_t kMemory = 0x7f0000100000;
constexpr std::uint64_t kPlace = kMemory + 0x4000;
constexpr std::uint64_t kBytes = 0x80;

ProcessMapping memory() {
  ProcessMapping mapping;
  mapping.start = kMemory;
  mapping.end = kMemory + 0x100000;
  mapping.kind = PROFD_MAPPING_ANONYMOUS;
  return mapping;
}

SampledJitCode function(const std::string& name) {
  return {.address = kPlace,
          .bytes = kBytes,
          .name = name,
          .source = SampledJitCode::kNoSource,
          .code = {},
          .debug_info = {}};
}

class JitProfileTest : public testing::Test {
 protected:
  JitProfileTest() {
    ProcessSnapshot& process = test::add_process(snapshot_, kRuntime, "runtime");
    test::image_of(process).mappings.emplace(1, memory());
    process.jit.emplace();
  }

  ProcessSnapshot& process() { return snapshot_.processes.front(); }
  JitSamples& jit() { return *process().jit; }

  // Samples of a leaf at an address, in runs of a function each.
  void add(std::uint64_t address, std::initializer_list<std::pair<std::uint32_t, int>> runs) {
    SyntheticSample sample = SyntheticSample(kRuntime).leaf(address, 1);
    StackTable& stacks = process().samples.stacks;
    for (const auto& [function, count] : runs) {
      for (int i = 0; i < count; ++i) {
        const SampleView view = sample.view();
        stacks.add(view, StackTable::hash_of(view), std::numeric_limits<std::uint64_t>::max());
        stacks.keep_times_of_last_counted();
        ++snapshot_.samples;
        ++snapshot_.ledger.taken;
      }
      jit().runs.push_back({.stack = stacks.last_counted(),
                            .count = static_cast<std::uint64_t>(count),
                            .first_frame = jit().frames.size()});
      jit().frames.push_back(function);
    }
  }

  SessionSummary write() {
    ResultWriter result = ResultWriter::create(scratch_.path()).value();
    const SessionSummary summary = write_session(snapshot_, *naming_, result).value();
    test::unpack(result, scratch_.path() / "result");
    EXPECT_EQ(summary.ledger.difference(), 0);
    return summary;
  }

  // Where the profile is, since "$build" is ".".
  std::map<std::string, test::Row> rows(bool go) {
    const std::filesystem::path before = std::filesystem::current_path();
    std::filesystem::current_path(scratch_.path() / "result");
    const auto report =
        go ? test::go_report("runtime.4321.prof") : test::perl_report("runtime.4321.prof");
    std::filesystem::current_path(before);
    return report.rows;
  }

  std::unique_ptr<CodeNaming> naming_ = std::make_unique<CodeNaming>(Parser::start().value());
  test::ScratchDirectory scratch_;
  SessionSnapshot snapshot_ = test::handmade_session();
};

TEST_F(JitProfileTest, AnAddressThatMeantTwoFunctionsHasTwoRows) {
  jit().functions = {function("first"), function("second")};
  add(kPlace + 0x10, {{0, 3}, {1, 2}});
  const SessionSummary summary = write();
  ASSERT_EQ(summary.profiles.size(), 1U);
  ASSERT_TRUE(summary.profiles[0].jit);
  EXPECT_EQ(summary.profiles[0].samples, 5U);
  EXPECT_EQ(summary.profiles[0].jit->samples, 5U);
  EXPECT_EQ(summary.profiles[0].jit->named_samples, 5U);
  EXPECT_TRUE(std::filesystem::exists(scratch_.path() / "result/objects/jit-runtime-4321.so"));
  for (const bool go : {true, false}) {
    const auto found = rows(go);
    ASSERT_TRUE(found.contains("first") && found.contains("second"));
    EXPECT_EQ(found.at("first").flat, 3);
    EXPECT_EQ(found.at("second").flat, 2);
  }
}

TEST_F(JitProfileTest, CodeWithoutANameKeepsItsAddressAndIsCounted) {
  jit().functions = {function("known")};
  add(kPlace + 0x10, {{0, 3}});
  add(kPlace + 0x2000, {{JitSamples::kNoFunction, 4}});
  jit().unnamed = {kPlace + 0x2000};
  const SessionSummary summary = write();
  ASSERT_TRUE(summary.profiles[0].jit);
  EXPECT_EQ(summary.profiles[0].samples, 7U);
  EXPECT_EQ(summary.profiles[0].jit->samples, 7U);
  EXPECT_EQ(summary.profiles[0].jit->named_samples, 3U);
  const auto profile =
      decode_gperftools(test::read_file(scratch_.path() / "result/runtime.4321.prof")).value();
  std::uint64_t kept = 0;
  for (const Profile::Record& record : profile.records()) {
    if (profile.pcs(record)[0] == kPlace + 0x2000) kept += record.count;
  }
  EXPECT_EQ(kept, 4U);
  EXPECT_EQ(rows(true).at("known").flat, 3);
}

// The scan for JIT files sees everything that the process has mapped.
TEST_F(JitProfileTest, TheScanFindsTheRuntimeWhenNoSampleHitItsLibrary) {
  add(kPlace, {{JitSamples::kNoFunction, 2}});
  jit().info.runtime = "Java";
  const SessionSummary summary = write();
  ASSERT_TRUE(summary.profiles[0].jit);
  EXPECT_EQ(summary.profiles[0].jit->runtime, "Java");
}

TEST_F(JitProfileTest, TheRuntimeWhoseLibraryWasHitIsPreferred) {
  add(kPlace, {{JitSamples::kNoFunction, 2}});
  auto library = std::make_shared<MappedFile>();
  library->path = "/usr/lib/jvm/lib/server/libjvm.so";
  ProcessMapping hit;
  hit.start = kMemory + 0x200000;
  hit.end = hit.start + 0x1000;
  hit.kind = PROFD_MAPPING_FILE;
  hit.file = library;
  test::image_of(process()).mappings.emplace(2, hit);
  jit().info.runtime = "Perl";  // embedded, say
  const SessionSummary summary = write();
  ASSERT_TRUE(summary.profiles[0].jit);
  EXPECT_EQ(summary.profiles[0].jit->runtime, "Java");
}

TEST_F(JitProfileTest, CodeAndLinesComeFromTheRuntimesFile) {
  const std::string code(kBytes, '\x90');
  JitDumpWriter dump;
  dump.header({.pid = kRuntime.tgid});
  const std::size_t lines_at = dump.bytes().size();
  const JitDumpLine lines[] = {
      {.address = kPlace, .line = 42, .discriminator = 0, .file = "/x/code.js"},
      {.address = kPlace + 0x20, .line = 57, .discriminator = 0, .file = "file:///y/other.js"}};
  dump.debug_info(1, kPlace, lines);
  const std::size_t lines_end = dump.bytes().size();
  dump.load(
      {.timestamp = 1, .pid = kRuntime.tgid, .address = kPlace, .name = "made", .code = code});
  const std::string bytes = dump.take();
  const std::string path = scratch_.path() / "code.dump";
  std::ofstream(path) << bytes;
  auto file = std::make_shared<JitFile>();
  file->fd = std::make_shared<const UniqueFd>(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  JitDumpState state;
  ASSERT_TRUE(read_jitdump(bytes, bytes.size(), state));
  jit().sources = {{.file = std::move(file), .state = state}};
  SampledJitCode sampled = function("made");
  sampled.source = 0;
  sampled.code = {.offset = bytes.size() - kBytes, .bytes = kBytes};
  sampled.debug_info = {.offset = lines_at, .bytes = lines_end - lines_at};
  jit().functions = {sampled};
  add(kPlace + 0x10, {{0, 3}});
  add(kPlace + 0x20, {{0, 2}});
  (void)write();
  const std::string image = test::read_file(scratch_.path() / "result/objects/jit-runtime-4321.so");
  EXPECT_NE(image.find(code), std::string::npos);
  EXPECT_NE(image.find("code.js"), std::string::npos);
  const std::string traces =
      test::output_of(std::string("HOME=/nonexistent ") + GO_PPROF_BINARY +
                      " -symbolize=none -sample_index=samples -lines -traces " +
                      (scratch_.path() / "result" / kNamedProfile).string());
  EXPECT_THAT(traces, testing::HasSubstr("3   made /x/code.js:42"));
  EXPECT_THAT(traces, testing::HasSubstr("2   made /y/other.js:57"));
}

}  // namespace
}  // namespace profd
