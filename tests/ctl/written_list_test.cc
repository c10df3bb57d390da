// The lists of written files of record, stop, dump and export: where they end, and what -q leaves.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/profile/pprof_profile.h"
#include "formats/profile/pprof_writer.h"
#include "tests/ctl/profctl_fixture.h"
#include "tests/ctl/views/random_profile.h"

namespace profd {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

class WrittenListTest : public test::ProfctlTest {
 protected:
  WrittenListTest() { service_.info.state = "ended"; }

  // A file for each process: of pid N, with N samples. session.json is one more.
  void give_processes(std::uint32_t count) {
    service_.files.clear();
    service_.result.files.clear();
    service_.result.summary.profiles.clear();
    for (std::uint32_t pid = 1; pid <= count; ++pid) {
      ProfileSummary profile;
      profile.pid = pid;
      profile.comm = "work";
      profile.path = "work." + std::to_string(pid) + ".prof";
      profile.samples = pid;
      service_.files[profile.path] = a_profile(pid);
      service_.result.files.push_back({profile.path, service_.files[profile.path].size()});
      service_.result.summary.profiles.push_back(profile);
    }
  }

  void give_named(const PprofProfile& profile) {
    const std::string bytes = encode_pprof_gzip(profile);
    service_.files["profile.pb.gz"] = bytes;
    service_.result.named_profile = ResultFile{"profile.pb.gz", bytes.size()};
  }

  // Each of the four, into a directory of its own.
  struct Call {
    std::vector<std::string> arguments;
    const char* all_option;
  };
  [[nodiscard]] std::vector<Call> calls() const {
    return {{{"stop", "5f2c01ab", "-o", out_ / "stop"}, "--all"},
            {{"dump", "5f2c01ab", "-o", out_ / "dump"}, "--all"},
            {{"record", "-a", "-d", "20ms", "-o", out_ / "record"}, "--all-files"},
            {{"export", "--last", "1h", "-o", out_ / "export"}, "--all-files"}};
  }

  Ran run_afresh(std::vector<std::string> arguments, const std::vector<std::string>& more) {
    std::filesystem::remove_all(out_);
    std::filesystem::create_directory(out_);
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }
};

std::ptrdiff_t lines_of(const std::string& text) { return std::ranges::count(text, '\n'); }

TEST_F(WrittenListTest, StopsAtTwentyLinesAndSaysHowManyMoreThereAre) {
  give_processes(25);
  for (const Call& call : calls()) {
    const std::string name = call.arguments.front();
    const Ran some = run_afresh(call.arguments, {});
    EXPECT_EQ(some.code, 0) << some.err;
    EXPECT_EQ(lines_of(some.out), 20) << name;
    EXPECT_THAT(some.out, StartsWith((out_ / name / "work.25.prof").string() + "  25 samples\n"));
    EXPECT_THAT(some.out, HasSubstr("work.6.prof  6 samples\n"));
    EXPECT_THAT(some.out, Not(HasSubstr("work.5.prof")));
    // 25 profiles and session.json.
    EXPECT_THAT(some.err,
                HasSubstr("profctl: 6 more not shown: use " + std::string(call.all_option) +
                          "; all are in " + (out_ / name).string() + "\n"));
    EXPECT_TRUE(std::filesystem::exists(out_ / name / "work.1.prof"));
    const Ran all = run_afresh(call.arguments, {call.all_option});
    EXPECT_EQ(lines_of(all.out), 26) << name;
    EXPECT_THAT(all.err, Not(HasSubstr("not shown"))) << name;
  }
}

TEST_F(WrittenListTest, HasNoLastLineWhereNothingIsLeftOut) {
  give_processes(19);
  for (const Call& call : calls()) {
    const Ran ran = run_afresh(call.arguments, {});
    EXPECT_EQ(lines_of(ran.out), 20);
    EXPECT_EQ(ran.err, kLossOfResult);
  }
}

TEST_F(WrittenListTest, QuietLeavesWhatIsMissingInTheSamples) {
  give_processes(25);
  test::RandomProfile random(5);
  random.add(100);
  give_named(random.profile());
  for (const Call& call : calls()) {
    EXPECT_THAT(run_afresh(call.arguments, {}).err, HasSubstr("of their own"));
    for (const char* option : {"-q", "--quiet"}) {
      const Ran quiet = run_afresh(call.arguments, {option});
      EXPECT_EQ(quiet.code, 0);
      EXPECT_EQ(quiet.out, "") << call.arguments.front();
      EXPECT_EQ(quiet.err, kLossOfResult) << call.arguments.front();
      EXPECT_TRUE(std::filesystem::exists(out_ / call.arguments.front() / "session.json"));
    }
  }
}

// Else nobody would know where the profiles are.
TEST_F(WrittenListTest, QuietPrintsADirectoryThatWasNotNamed) {
  const auto before = std::filesystem::current_path();
  for (const Call& call : calls()) {
    std::vector<std::string> arguments = call.arguments;
    arguments.resize(arguments.size() - 2);  // without -o
    std::filesystem::remove_all(out_);
    std::filesystem::create_directory(out_);
    std::filesystem::current_path(out_);
    arguments.emplace_back("-q");
    const Ran quiet = run(arguments);
    std::filesystem::current_path(before);
    EXPECT_EQ(quiet.out, "profd-5f2c01ab\n") << arguments.front();
    EXPECT_TRUE(std::filesystem::exists(out_ / "profd-5f2c01ab" / "session.json"));
  }
}

TEST_F(WrittenListTest, QuietIsForOneFileToo) {
  test::RandomProfile random(5);
  random.add(100);
  give_named(random.profile());
  const std::string file = out_.string() + ".pb.gz";
  const Ran quiet = run({"stop", "5f2c01ab", "-q", "-o", file});
  EXPECT_EQ(quiet.out, "");
  EXPECT_EQ(quiet.err, kLossOfResult);
  EXPECT_TRUE(std::filesystem::exists(file));
}

TEST_F(WrittenListTest, JsonIsWhole) {
  give_processes(25);
  const std::string summary = to_json(service_.result.summary) + "\n";
  for (const Call& call : calls()) {
    EXPECT_EQ(run_afresh(call.arguments, {"--json"}).out, summary);
    EXPECT_EQ(run_afresh(call.arguments, {"--json", "-q"}).out, summary);
  }
}

TEST_F(WrittenListTest, APartForEachProcessIsInSuchAList) {
  PprofProfile profile({{"samples", "count"}, {"cpu", "nanoseconds"}});
  const std::uint32_t location = profile.add_location(
      {.address = 0x1000,
       .mapping = profile.add_mapping(
           {.start = 0x1000, .limit = 0x2000, .file = profile.add_text("/bin/work")})},
      {});
  const std::uint32_t stack = profile.add_stack({&location, 1});
  for (std::int64_t pid = 1; pid <= 23; ++pid) {
    const std::uint32_t labels =
        profile.add_labels({{.key = profile.add_text("comm"), .text = profile.add_text("work")},
                            {.key = profile.add_text("pid"), .number = pid}});
    const std::vector<std::int64_t> values{pid, pid * 1000};
    profile.add_sample({.labels = labels, .stack = stack}, values);
  }
  give_named(profile);
  const std::string to = out_ / "split";
  const std::vector<std::string> split{"export", "--last", "1h", "--by", "process", "-o", to};
  const Ran some = run_afresh(split, {});
  EXPECT_EQ(some.code, 0) << some.err;
  EXPECT_EQ(lines_of(some.out), 20);
  EXPECT_THAT(some.out, StartsWith((out_ / "split/work.23.pb.gz").string() + "  23 samples\n"));
  EXPECT_THAT(some.err, HasSubstr("profctl: 3 more not shown: use --all-files"));
  EXPECT_EQ(lines_of(run_afresh(split, {"--all-files"}).out), 23);
  EXPECT_EQ(run_afresh(split, {"-q"}).out, "");
  EXPECT_TRUE(std::filesystem::exists(out_ / "split/work.1.pb.gz"));
}

// Of the target, not of the list.
TEST_F(WrittenListTest, AllOfRecordIsEveryProcess) {
  give_processes(25);
  const Ran ran = run({"record", "--all", "-d", "20ms", "-o", out_});
  EXPECT_EQ(lines_of(ran.out), 20);
  ASSERT_THAT(service_.started, SizeIs(1));
  EXPECT_TRUE(service_.started[0].target.all);
}

}  // namespace
}  // namespace profd
