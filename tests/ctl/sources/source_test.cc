// The sources of samples: files of profd and of others, directories, sessions, and the history.

#include "ctl/sources/source.h"

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/json/parse.hpp>
#include <boost/json/value_to.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ctl/sources/file_reader.h"
#include "ctl/sources/samples_wire.h"
#include "formats/base/gzip.h"
#include "formats/profile/gperftools_writer.h"
#include "formats/profile/pprof_reader.h"
#include "formats/profile/pprof_writer.h"
#include "formats/profile/stack_texts.h"
#include "tests/collectors/silent_fuse.h"
#include "tests/collectors/without_server.h"
#include "tests/ctl/profctl_fixture.h"
#include "tests/ctl/views/pprof_traces.h"
#include "tests/ctl/views/random_profile.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using testing::HasSubstr;
using testing::SizeIs;
using Arguments = std::vector<std::string>;

constexpr uid_t kAnother = 12345;

class SourceTest : public test::ProfctlTest {
 protected:
  json::value report_of(const std::string& source, Arguments more = {"--names", "full"}) {
    more.insert(more.begin(), {"report", "--json"});
    if (!source.empty()) more.push_back(source);
    const Ran ran = run(more);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return json::parse(ran.out.empty() ? "null" : ran.out);
  }
  static test::TraceSums sums_of(const json::value& report) {
    return test::row_sums(report.at("rows"));
  }
  // The daemon gives this profile as a result with names.
  void give_named_profile(const std::string& bytes) {
    service_.files["profile.pb.gz"] = bytes;
    service_.result.named_profile = ResultFile{.path = "profile.pb.gz", .bytes = bytes.size()};
  }
  void expect_refused(const std::string& name, const std::string& bytes, const std::string& why) {
    const std::string file = scratch_.write(name, bytes);
    const Ran ran = run({"report", file});
    EXPECT_EQ(ran.code, kExitFailed) << name;
    EXPECT_THAT(ran.err, HasSubstr(why)) << name;
    EXPECT_THAT(ran.err, HasSubstr("hint: ")) << name;
    EXPECT_EQ(ran.out, "") << name;
  }

  test::ScratchDirectory scratch_;
};

std::string a_named_profile(std::uint32_t seed = 5) {
  test::RandomProfile random(seed);
  random.add(100);
  return encode_pprof_gzip(random.profile());
}

TEST_F(SourceTest, AProfileIsPackedOrPlain) {
  const std::string packed = a_named_profile();
  const auto one = sums_of(report_of(scratch_.write("a.pb.gz", packed)));
  const auto other = sums_of(report_of(scratch_.write("a.pb", *unpack_pprof(packed))));
  EXPECT_FALSE(one.empty());
  EXPECT_EQ(one, other);
}

TEST_F(SourceTest, AProfileOfGoIsOneOfCpuTime) {
  const fs::path file = fs::path(FORMATS_DATA) / "go_cpu.pb.gz";
  EXPECT_EQ(sums_of(report_of(file)), test::function_sums(test::traces_of(file)));
}

TEST_F(SourceTest, FoldedStacksHaveTheSumsOfTheirLines) {
  test::RandomProfile random(5);
  random.add(100);
  const std::string folded = folded_stacks(random.profile());
  std::vector<test::Trace> traces;
  std::istringstream lines(folded);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t blank = line.rfind(' ');
    test::Trace trace{.labels = {}, .samples = std::stoll(line.substr(blank)), .stack = {}};
    std::istringstream frames(line.substr(0, blank));
    for (std::string frame; std::getline(frames, frame, ';');) trace.stack.push_back(frame);
    std::ranges::reverse(trace.stack);
    traces.push_back(trace);
  }
  EXPECT_EQ(sums_of(report_of(scratch_.write("a.folded", folded))), test::function_sums(traces));
  // By its content, too.
  EXPECT_EQ(sums_of(report_of(scratch_.write("stacks", folded))), test::function_sums(traces));
}

TEST_F(SourceTest, MarksOfFoldedFramesSayWhatKindOfCodeItIs) {
  const json::value report =
      report_of(scratch_.write("a.folded", "main;vfs_read_[k] 2\nmain;Foo_[j];run_[i] 1\n"));
  std::map<std::string, std::string> kinds;
  for (const json::value& row : report.at("rows").as_array()) {
    kinds[json::value_to<std::string>(row.at("name"))] =
        json::value_to<std::string>(row.at("kind"));
  }
  EXPECT_EQ(
      kinds,
      (std::map<std::string, std::string>{
          {"main", "native"}, {"vfs_read", "kernel"}, {"Foo", "runtime"}, {"run", "interpreted"}}));
}

TEST_F(SourceTest, AGperftoolsProfileHasTheSumsOfBothReaders) {
  const fs::path file = fs::path(FORMATS_DATA) / "work_pie.prof";
  const json::value report = report_of(file);
  std::int64_t self = 0;
  for (const auto& [name, sum] : sums_of(report)) self += sum.self;
  EXPECT_EQ(static_cast<std::uint64_t>(self), test::go_report(file).total);
  EXPECT_EQ(static_cast<std::uint64_t>(self), test::perl_report(file).total);
}

TEST_F(SourceTest, BadFilesAreRefusedWithAHint) {
  const std::string packed = a_named_profile();
  const std::string plain = *unpack_pprof(packed);
  expect_refused("empty.pb.gz", "", "it is empty");
  expect_refused("empty.folded", "", "it is empty");
  expect_refused("cut.pb", plain.substr(0, plain.size() - 3), "could not read the pprof profile");
  expect_refused("perf.data", "PERFILE2" + std::string(100, '\0'), "perf record");
  expect_refused("text.folded", "no count\n", "line 1 does not end in a count");
  expect_refused("x.json", "{\"$schema\":1}", "it is JSON");
  expect_refused("program", test::read_file("/proc/self/exe").substr(0, 4096), "a program");
  expect_refused("heap.pb.gz", test::read_file(fs::path(FORMATS_DATA) / "go_heap.pb.gz"),
                 "no CPU profile");
  expect_refused("noise", std::string(4096, '\xaa'), "no profile that profctl knows");
  expect_refused("bomb.pb.gz", pack_gzip(std::string(kMaxPprofBytes + 1, '\0'), 1), "too large");
}

TEST_F(SourceTest, AFileThatIsCutSaysSoAndWhatToDo) {
  const std::string packed = a_named_profile();
  for (const std::size_t size :
       {std::size_t{2}, std::size_t{10}, packed.size() / 2, packed.size() - 8, packed.size() - 1}) {
    expect_refused("cut.pb.gz", packed.substr(0, size),
                   "cut.pb.gz: could not read the pprof profile: it is cut: its gzip data ends too "
                   "early\nhint: the program that writes it may still run: wait for its end; if it "
                   "has ended, copy the file again\n");
  }
  const std::string prof = test::read_file(fs::path(FORMATS_DATA) / "simple.prof");
  ASSERT_GT(prof.size(), 200U);
  for (const auto& [size, where] : std::vector<std::pair<std::size_t, std::string>>{
           {1, "the file ends in the header at offset 1\n"},
           {12, "the file ends in the header at offset 12\n"},
           {39, "the file ends in the header"},
           {40, "the file ends without a trailer at offset 40\n"},
           {prof.size() - 1, "the last line has no end at offset "}}) {
    expect_refused("cut.prof", prof.substr(0, size), "cut.prof: it is cut: " + where);
    expect_refused("cut.prof", prof.substr(0, size),
                   "\nhint: the program that writes it may still run");
  }
}

// gzip of nothing, as a shell makes it of a command that failed: "... | gzip >x.pb.gz".
TEST_F(SourceTest, EmptyGzipDataIsCalledThat) {
  const std::string expected =
      "it is empty: gzip data without content\nhint: the program that wrote it may not have ended "
      "yet\n";
  expect_refused("empty.pb.gz", pack_gzip("", 6), expected);
  expect_refused("twice-empty.pb.gz", pack_gzip("", 6) + pack_gzip("", 1), expected);
}

TEST_F(SourceTest, AHugeFileIsRefusedBeforeItIsRead) {
  const std::string file = scratch_.write("huge.pb", "x");
  ASSERT_EQ(::truncate(file.c_str(), off_t{1} << 30), 0);
  const Ran ran = run({"report", file});
  EXPECT_EQ(ran.code, kExitFailed);
  EXPECT_THAT(ran.err, HasSubstr("larger than"));
}

TEST_F(SourceTest, WhatIsNoRegularFileIsRefused) {
  const std::string fifo = scratch_.path() / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(run({"report", fifo}).code, kExitUsage);
  fs::create_directory(scratch_.path() / "no-result");
  const Ran ran = run({"report", scratch_.path() / "no-result"});
  EXPECT_EQ(ran.code, kExitUsage);
  EXPECT_THAT(ran.err, HasSubstr("session.json"));
}

// Of these, the kernel's log loses what root reads.
TEST_F(SourceTest, AFileOfTheKernelIsRefused) {
  for (const char* file : {"/proc/kmsg", "/proc/self/status", "/sys/kernel/uevent_seqnum"}) {
    const Ran ran = run({"report", file});
    EXPECT_EQ(ran.code, kExitUsage) << file;
    EXPECT_THAT(ran.err, HasSubstr("is a file that the kernel makes")) << file;
    EXPECT_THAT(ran.err, HasSubstr("hint: name a file on a disk")) << file;
  }
}

// A gperftools profile names files, too.
TEST_F(SourceTest, RootAsksNoFileSystemOfAUser) {
  const fs::path mount = scratch_.path() / "fuse";
  fs::create_directory(mount);
  std::optional<test::SilentFuse> fuse(std::in_place, mount, kAnother);
  ASSERT_TRUE(fuse->mounted());
  std::string profile = test::read_file(fs::path(FORMATS_DATA) / "work_pie.prof");
  constexpr std::string_view kProgram = "/srv/workload/pprof/samples/src/work_pie";
  for (auto at = profile.find(kProgram); at != profile.npos; at = profile.find(kProgram)) {
    profile.replace(at, kProgram.size(), fuse->file());
  }
  const std::string naming = scratch_.write("naming.prof", profile);
  fuse->fall_silent();
  const auto report = [&](const std::string& source) {
    return test::result_without_server(fuse, [&] { return run({"report", source}); });
  };
  const Ran refused = report(fuse->file());
  EXPECT_EQ(refused.code, kExitNotPermitted);
  EXPECT_THAT(refused.err, HasSubstr("a file system of another user"));
  EXPECT_THAT(refused.err, HasSubstr("hint: as that user, copy"));
  EXPECT_EQ(report(naming).code, 0);
}

// The child has no way to know the path, and no right to open anything.
TEST_F(SourceTest, FilesOfOthersAreReadInASandboxWithTheSameResult) {
  ASSERT_EQ(::geteuid(), 0U) << "needs root: it gives files away";
  const fs::path prof =
      scratch_.write("work.prof", test::read_file(fs::path(FORMATS_DATA) / "work_pie.prof"));
  test::RandomProfile random(5);
  random.add(50);
  const std::vector<fs::path> files{scratch_.write("a.pb.gz", a_named_profile()),
                                    scratch_.write("a.folded", folded_stacks(random.profile())),
                                    prof};
  for (const fs::path& file : files) {
    const json::value own = report_of(file);
    ASSERT_EQ(::chown(file.c_str(), kAnother, kAnother), 0);
    const auto opened = SourceFile::open(file);
    ASSERT_TRUE(opened);
    EXPECT_TRUE(opened->is_of_another_user());
    EXPECT_EQ(report_of(file), own) << file;
  }
  const std::string bad = scratch_.write("bad.pb.gz", "\x1f\x8b no gzip");
  ASSERT_EQ(::chown(bad.c_str(), kAnother, kAnother), 0);
  const Ran ran = run({"report", bad});
  EXPECT_EQ(ran.code, kExitFailed);
  EXPECT_THAT(ran.err, HasSubstr("bad.pb.gz"));
  EXPECT_THAT(ran.err, HasSubstr("gzip data is malformed"));
}

TEST_F(SourceTest, AMalformedAnswerOfTheSandboxIsRefused) {
  Samples samples;
  const SampledFrame frame{.function = samples.add_function({.name = samples.add_text("f")})};
  const std::array<std::uint32_t, 1> stack{samples.add_location({&frame, 1})};
  samples.add(stack, samples.add_labels({.pid = 7}), {.samples = 3, .cpu_ns = 5});
  samples.losses = SampleLosses{.written = 3,
                                .lost = {{.reason = "ring_full", .count = 1}},
                                .user_samples = 2,
                                .incomplete = {{.reason = "no_row", .count = 1}}};
  const std::string bytes = encode_samples(samples);
  const auto decoded = decode_samples(bytes);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(encode_samples(*decoded), bytes);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    EXPECT_FALSE(decode_samples(bytes.substr(0, at))) << at;
    for (const char flip : {'\x01', '\x80', '\xff'}) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ flip);
      const auto other = decode_samples(changed);
      if (!other) continue;
      std::vector<std::uint32_t> frames;
      for (const Samples::Row& row : other->rows()) other->read_stack(row, frames);
    }
  }
}

TEST_F(SourceTest, ADirectoryHasTheProfilesOfItsProcesses) {
  const fs::path directory = scratch_.path() / "out";
  ASSERT_EQ(run({"stop", "5f2c01ab", "-o", directory}).code, 0);
  const json::value report = report_of(directory, {"--by", "process"});
  std::map<std::string, std::int64_t> samples;
  for (const json::value& row : report.at("rows").as_array()) {
    samples[json::value_to<std::string>(row.at("name"))] = row.at("total").at("samples").as_int64();
  }
  EXPECT_EQ(samples, (std::map<std::string, std::int64_t>{{"work 1", 5}, {"work 2", 490}}));
  // 495 samples of 10101 us in 5 s.
  EXPECT_EQ(report.at("all").at("cpu_ns").as_int64(), 495 * 10'101'000LL);
  EXPECT_EQ(report.at("duration_ns").as_int64(), 5'000'000'000LL);
}

TEST_F(SourceTest, AConvertedDirectoryKeepsItsStartAndItsLosses) {
  const fs::path directory = scratch_.path() / "out";
  ASSERT_EQ(run({"stop", "5f2c01ab", "-o", directory}).code, 0);
  const std::string copy = scratch_.path() / "copy.pb.gz";
  ASSERT_EQ(run({"convert", directory, "-o", copy}).code, 0);
  const Ran original = run({"report", directory});
  EXPECT_THAT(original.err, HasSubstr("1 of 496 samples were lost"));
  EXPECT_EQ(run({"report", copy}).err, original.err);
  EXPECT_THAT(test::output_of(std::string("HOME=/nonexistent TZ=UTC ") + GO_PPROF_BINARY +
                              " -symbolize=none -raw " + copy),
              HasSubstr("Time: 2026-01-02 03:04:05 "));
}

// In the process of the caller, and across the sandbox, where libc finds no time zone.
TEST_F(SourceTest, TheStartOfADirectoryIsAUtcTimeOrUnknown) {
  ASSERT_EQ(::geteuid(), 0U) << "needs root: it gives files away";
  const fs::path directory = scratch_.path() / "out";
  ASSERT_EQ(run({"stop", "5f2c01ab", "-o", directory}).code, 0);
  const std::string file = directory / "session.json";
  const std::string summary = test::read_file(file);
  const std::string started = "2026-01-02T03:04:05Z";
  ASSERT_NE(summary.find(started), std::string::npos);
  for (const auto& [text, start_ns] :
       std::map<std::string, std::int64_t>{{started, 1'767'323'045'000'000'000},
                                           {"1970-01-02T00:00:00Z", 86'400'000'000'000},
                                           {"2026-02-30T03:04:05Z", 0},
                                           {"2026-01-02T03:04:05", 0},
                                           {"2026-01-02 03:04:05Z", 0},
                                           {"1969-01-02T03:04:05Z", 0},
                                           {"9999-01-02T03:04:05Z", 0},
                                           {"5m ago", 0},
                                           {"", 0}}) {
    std::string changed = summary;
    changed.replace(changed.find(started), started.size(), text);
    (void)scratch_.write("out/session.json", changed);
    for (const uid_t owner : {uid_t{0}, kAnother}) {
      ASSERT_EQ(::chown(file.c_str(), owner, owner), 0);
      const auto opened = SourceFile::open(file);
      ASSERT_TRUE(opened);
      FileReader reader;
      const auto read = reader.read_summary(*opened);
      ASSERT_TRUE(read) << text;
      EXPECT_EQ(read->start_ns, start_ns) << text;
    }
  }
}

TEST_F(SourceTest, ADirectoryHasTheRuntimesOfItsJitCode) {
  JitNames names;
  names.runtime = "Node.js";
  names.samples = names.named_samples = 490;
  ASSERT_THAT(service_.result.summary.profiles, SizeIs(2));
  service_.result.summary.profiles[1].jit = names;
  const fs::path directory = scratch_.path() / "out";
  ASSERT_EQ(run({"stop", "5f2c01ab", "-o", directory}).code, 0);
  std::map<std::string, std::int64_t> samples;
  const json::value report = report_of(directory, {"--by", "runtime"});
  for (const json::value& row : report.at("rows").as_array()) {
    samples[json::value_to<std::string>(row.at("name"))] = row.at("total").at("samples").as_int64();
  }
  EXPECT_EQ(samples, (std::map<std::string, std::int64_t>{{"native", 5}, {"nodejs", 490}}));
}

// Mutations: by the JIT code of the process alone, and with the version.
TEST_F(SourceTest, ADirectoryHasTheRuntimesOfItsInterpretedCode) {
  auto& profiles = service_.result.summary.profiles;
  ASSERT_THAT(profiles, SizeIs(2));
  profiles[0].interpreted = InterpretedNames{.runtime = "php", .samples = 5};
  profiles[1].interpreted = InterpretedNames{.runtime = "python 3.11", .samples = 490};
  profiles[1].jit = JitNames{.runtime = "Node.js", .file = {}, .functions = 0, .samples = 1};
  const fs::path directory = scratch_.path() / "out";
  ASSERT_EQ(run({"stop", "5f2c01ab", "-o", directory}).code, 0);
  std::map<std::string, std::int64_t> samples;
  const json::value report = report_of(directory, {"--by", "runtime"});
  for (const json::value& row : report.at("rows").as_array()) {
    samples[json::value_to<std::string>(row.at("name"))] = row.at("total").at("samples").as_int64();
  }
  EXPECT_EQ(samples, (std::map<std::string, std::int64_t>{{"php", 5}, {"python", 490}}));
}

TEST_F(SourceTest, AProfileOfADirectoryIsOfTheProcessInItsName) {
  const fs::path directory = scratch_.path() / "out";
  ASSERT_EQ(run({"stop", "5f2c01ab", "-o", directory}).code, 0);
  const std::string file = directory / "work.2.prof";
  for (const Arguments& target : {Arguments{"-p", "2"}, Arguments{"-n", "work"}}) {
    const json::value report = report_of(file, {"--by", "process", target[0], target[1]});
    ASSERT_THAT(report.at("rows").as_array(), SizeIs(1));
    EXPECT_EQ(json::value_to<std::string>(report.at("rows").at(0).at("name")), "work 2");
  }
  EXPECT_EQ(run({"report", file, "-p", "1"}).code, kExitNotFound);
}

TEST_F(SourceTest, ASessionIsDumpedAndItsCopyRemoved) {
  const std::string bytes = a_named_profile();
  give_named_profile(bytes);
  const auto file = scratch_.write("a.pb.gz", bytes);
  EXPECT_EQ(report_of("5f2c01ab").at("rows"), report_of(file).at("rows"));
  EXPECT_THAT(service_.calls, testing::Contains("dump 5f2c01ab"));
  EXPECT_THAT(service_.calls, testing::Contains("remove 5f2c01ab"));
  const Ran unknown = run({"report", "00000000"});
  EXPECT_EQ(unknown.code, kExitNotFound);
  EXPECT_THAT(unknown.err, HasSubstr("profctl list"));
}

TEST_F(SourceTest, ATimeAsSourceHasTheOptionThatItIsFor) {
  const std::pair<Arguments, const char*> table[] = {
      {{"report", "20:19"},
       "did you mean --since 20:19? As a source, the time from then is 20:19.."},
      {{"flame", "yesterday", "-o", "-"}, "--since yesterday?"},
      {{"report", "5m"}, "did you mean --last 5m? As a source, that time is \"5m ago..\""},
      {{"report", "1h 30min"}, "--last \"1h 30min\"?"},
      {{"report", "5m ago"}, "--since \"5m ago\"? As a source, the time from then is \"5m ago..\""},
      {{"diff", "14:00", "15:00"}, "hint: did you mean 14:00..? That is the time from then"},
      {{"diff", "5m", "15:00.."}, "hint: did you mean \"5m ago..\"? That is the time from then"},
      {{"convert", "14:00", "-o", "-", "--format", "folded"}, "hint: did you mean 14:00..?"},
      {{"diff", "nosuch", "15:00.."}, "; a time of the history is 14:00..14:10"},
      {{"report", "1234"}, "hint: 'profctl list' shows the sessions"}};
  for (const auto& [arguments, hint] : table) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, kExitNotFound) << hint;
    EXPECT_THAT(ran.err, HasSubstr("there is no file and no session '" + arguments[1] + "'"));
    EXPECT_THAT(ran.err, HasSubstr(hint));
  }
}

TEST_F(SourceTest, WithoutASourceItIsTheLastTenMinutesOfTheHistory) {
  give_named_profile(a_named_profile());
  const auto before = static_cast<std::uint64_t>(::time(nullptr)) * 1000;
  (void)report_of("", {});
  const auto after = static_cast<std::uint64_t>(::time(nullptr)) * 1000 + 1000;
  ASSERT_THAT(service_.exported, SizeIs(1));
  EXPECT_TRUE(service_.exported[0].profile_only);
  EXPECT_GE(service_.exported[0].range.since_ms, before - 600'000);
  EXPECT_LE(service_.exported[0].range.since_ms, after - 600'000);
  EXPECT_EQ(service_.exported[0].range.until_ms, TimeRange::kEndMs);
  EXPECT_EQ(service_.calls.back(), "remove 5f2c01ab");
}

TEST_F(SourceTest, TheHistoryTakesRangesAndTargets) {
  give_named_profile(a_named_profile());
  (void)report_of("",
                  {"--since", "@1767362700", "--until", "@1767362760", "-u", "nginx", "-p", "7"});
  (void)report_of("@1767362700..@1767362760", {});
  EXPECT_EQ(run({"diff", "@1767362700..@1767362760", "@1767362760..@1767362820"}).code, 0);
  ASSERT_THAT(service_.exported, SizeIs(4));
  EXPECT_EQ(service_.exported[0].range,
            (TimeRange{.since_ms = 1'767'362'700'000, .until_ms = 1'767'362'760'000}));
  EXPECT_EQ(service_.exported[0].target.units, std::vector<std::string>{"nginx.service"});
  EXPECT_EQ(service_.exported[0].target.pids, std::vector<std::uint32_t>{7});
  EXPECT_EQ(service_.exported[1].range, service_.exported[0].range);
  EXPECT_EQ(service_.exported[3].range.since_ms, 1'767'362'760'000U);
  EXPECT_EQ(run({"report", "10m ago..1h ago"}).code, kExitUsage);
  EXPECT_THAT(run({"report", "10m ago..1h ago"}).err, HasSubstr("' ends before it starts\n"));
  EXPECT_THAT(run({"report", "@1767362700..@1767362700"}).err, HasSubstr("' is empty\n"));
  EXPECT_EQ(run({"report", "tea..coffee"}).code, kExitUsage);
}

// Local time is UTC + 1 hour, while it is there.
class LocalTimeInBerlin {
 public:
  LocalTimeInBerlin() {
    ::setenv("TZ", "Europe/Berlin", 1);
    ::tzset();
  }
  LocalTimeInBerlin(const LocalTimeInBerlin&) = delete;
  LocalTimeInBerlin& operator=(const LocalTimeInBerlin&) = delete;
  ~LocalTimeInBerlin() {
    ::unsetenv("TZ");
    ::tzset();
  }
};

TEST_F(SourceTest, AHeadingOfTheHistoryHasTheTimesOfItsWindows) {
  const LocalTimeInBerlin berlin;
  give_named_profile(a_named_profile());
  const std::string times = "the history from 2026-01-02 04:04:05 to 2026-01-02 04:04:10, ";
  EXPECT_THAT(run({"report", "--since", "@1767323000"}).out, testing::StartsWith(times));
  EXPECT_THAT(run({"report", "@1767323000.."}).out, testing::StartsWith(times));
  service_.result.summary.seconds = 4.96;  // a window that ends early
  EXPECT_THAT(run({"report", "@1767323000.."}).out, testing::StartsWith(times));
  const std::string file = scratch_.write("a.pb.gz", a_named_profile());
  EXPECT_THAT(run({"report", file}).out, testing::StartsWith(file + ", "));
  const Ran diff = run({"diff", "@1767323000..@1767323060", file});
  EXPECT_THAT(diff.out, HasSubstr("base: " + times));
  EXPECT_THAT(diff.out, HasSubstr("new:  " + file + ", "));
  service_.result.summary.started = "tea";
  EXPECT_THAT(run({"report"}).out, testing::StartsWith("the history, "));
}

TEST_F(SourceTest, ADiffSaysWhichWindowBothSidesHave) {
  const LocalTimeInBerlin berlin;
  give_named_profile(a_named_profile());
  const Ran both = run({"diff", "@1767323000..@1767323046", "@1767323046..@1767323060"});
  EXPECT_THAT(both.err, HasSubstr("both sides have the samples from 2026-01-02 04:04:05 to "
                                  "2026-01-02 04:04:10: windows of the history are not divided"));
  const std::string file = scratch_.write("a.pb.gz", a_named_profile());
  EXPECT_THAT(run({"diff", "@1767323000..@1767323046", file}).err,
              testing::Not(HasSubstr("both sides")));
}

// The daemon refuses the first export of each run: nothing of the target was there.
TEST_F(SourceTest, ATargetMayLackInOneTimeOfADiff) {
  give_named_profile(a_named_profile());
  std::size_t exports = 0;
  service_.on_call = [this, &exports] {
    service_.error.reset();
    if (service_.calls.back() != "export" || ++exports != 1) return;
    service_.error = fail(ErrorCode::kNotFound, "no process matched");
  };
  const Arguments diff{"diff", "@1767323000..@1767323046", "@1767323046..@1767323060"};
  Arguments of_target = diff;
  of_target.emplace_back("-n");
  of_target.emplace_back("program1");
  const Ran ran = run(of_target);
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.err, HasSubstr(": no process matched: it counts as empty\n"));
  EXPECT_THAT(ran.out, HasSubstr("new"));
  ASSERT_THAT(service_.exported, SizeIs(3));
  EXPECT_EQ(service_.exported[0].target.comms, std::vector<std::string>{"program1"});
  EXPECT_TRUE(service_.exported[1].target.empty());
  EXPECT_EQ(service_.exported[1].range, service_.exported[0].range);
  EXPECT_EQ(service_.exported[2].target.comms, std::vector<std::string>{"program1"});
  // Without a target there is nothing else to ask for.
  exports = 0;
  EXPECT_EQ(run(diff).code, kExitNotFound);
  EXPECT_THAT(service_.exported, SizeIs(4));
  exports = 0;
  EXPECT_EQ(run({"report", "@1767323000..@1767323046", "-n", "program1"}).code, kExitNotFound);
}

TEST_F(SourceTest, ATimeThatHasNotComeIsCalledThat) {
  service_.error = fail(ErrorCode::kNotFound, "no windows yet");
  const std::vector<Arguments> table = {{"report", "--since", "2200-01-01 00:00"},
                                        {"report", "2200-01-01 00:00.."},
                                        {"flame", "2200-01-01 00:00..", "-o", "x.svg"},
                                        {"diff", "2200-01-01 00:00..", "1h ago.."},
                                        {"export", "--since", "2200-01-01 00:00"}};
  for (const Arguments& arguments : table) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, kExitNotFound);
    EXPECT_THAT(ran.err, HasSubstr("no windows since 2200-01-01 00:00:00 (that is in the future)"))
        << arguments[0];
  }
  EXPECT_THAT(run({"report"}).err, HasSubstr("no windows yet"));
}

TEST_F(SourceTest, TheNoteOfAnExportIsPrinted) {
  give_named_profile(a_named_profile());
  service_.result.note = "whole hours\x1b[31m";
  const Ran ran = run({"report"});
  EXPECT_EQ(ran.err,
            "profctl: whole hours?[31m\n"
            "profctl: 1 of 496 samples were lost, so times are too small: 1 ring_full\n");
}

// The daemon sends losses beside the profile; the file has them inside.
TEST_F(SourceTest, AConvertedHistoryKeepsItsLosses) {
  give_named_profile(a_named_profile());
  const std::string file = scratch_.path() / "copy.pb.gz";
  ASSERT_EQ(run({"convert", "@1767323000..@1767323046", "-o", file}).code, 0);
  EXPECT_EQ(run({"report", file}).err,
            "profctl: 1 of 496 samples were lost, so times are too small: 1 ring_full\n");
}

// `unnamed` of its samples are at an address of `file` that has no name, `named` in a function that
// was called from there.
std::string a_profile_without_names(const std::string& file, std::int64_t unnamed,
                                    std::int64_t named) {
  PprofProfile profile({{"samples", "count"}, {"cpu", "nanoseconds"}});
  profile.default_sample_type = "cpu";
  profile.period_type = {"cpu", "nanoseconds"};
  profile.period = 1'000'000;
  profile.add_mapping({.file = profile.add_text("[all processes of host]")});
  const std::uint32_t mapping =
      profile.add_mapping({.start = 0x1000, .limit = 0x9000, .file = profile.add_text(file)});
  const std::uint32_t name = profile.add_text("work");
  const std::vector<PprofLine> lines{
      {.function = profile.add_function({.name = name, .system_name = name})}};
  const std::uint32_t nowhere = profile.add_location({.address = 0x1000, .mapping = mapping}, {});
  const std::uint32_t work = profile.add_location({.address = 0x2000, .mapping = mapping}, lines);
  const auto add = [&profile](const std::vector<std::uint32_t>& stack, std::int64_t count) {
    const std::vector<std::int64_t> values{count, count * 1'000'000};
    profile.add_sample({.labels = profile.add_labels({}), .stack = profile.add_stack(stack)},
                       values);
  };
  add({nowhere}, unnamed);
  add({work, nowhere}, named);
  return encode_pprof_gzip(profile);
}

TEST_F(SourceTest, WhatWouldNameUnnamedCodeIsSaid) {
  const auto said = [this](const std::string& file, std::int64_t unnamed, std::int64_t named) {
    const auto path = scratch_.write("a.pb.gz", a_profile_without_names(file, unnamed, named));
    EXPECT_EQ(run({"report", "--json", path}).err, "");
    return run({"report", path}).err;
  };
  EXPECT_EQ(said("/usr/lib/libfoo.so", 30, 70),
            "profctl: 30.0 % of the samples are in programs and libraries, in code without a name\n"
            "hint: 'profctl debuginfo list' shows the debug files that are missing; with them, "
            "later samples have names\n");
  EXPECT_EQ(said("//anon", 30, 70),
            "profctl: 30.0 % of the samples are in JIT code without a name\n"
            "hint: 'profctl doctor --pid PID' shows the option that makes its runtime write "
            "names\n");
  EXPECT_EQ(said("[python]", 30, 70),
            "profctl: 30.0 % of the samples are in interpreted code without a name\n"
            "hint: 'profctl status' counts why code objects were not announced "
            "(docs/python.md)\n");
  EXPECT_EQ(said("/usr/lib/libfoo.so", 25, 75), "") << "not more than a quarter";
  EXPECT_EQ(said("/usr/lib/libfoo.so", 50, 49), "") << "less than 100 samples";
  EXPECT_EQ(said("[kernel.kallsyms]", 30, 70), "") << "nothing that a debug file would name";
}

TEST_F(SourceTest, TheDaemonsErrorsArePrintedByReport) {
  service_.error = fail(ErrorCode::kNotFound, "continuous mode has kept no window", "switch it on");
  const Ran ran = run({"report"});
  EXPECT_EQ(ran.code, kExitNotFound);
  EXPECT_EQ(ran.err, "profctl: continuous mode has kept no window\nhint: switch it on\n");
}

}  // namespace
}  // namespace profd
