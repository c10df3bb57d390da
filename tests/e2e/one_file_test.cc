// `profctl record -o FILE`: one file with names, in each of its forms, as its readers show it.

#include <cstdint>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include <boost/json/parse.hpp>

#include "formats/profile/pprof_reader.h"
#include "tests/e2e/recording.h"

namespace profd::e2e {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class OneFileTest : public ::testing::Test {
 protected:
  Ended record(const Args& options, const Args& command) {
    Args args{"record", "-F", "499"};
    args.insert(args.end(), options.begin(), options.end());
    args.emplace_back("--");
    args.insert(args.end(), command.begin(), command.end());
    Ended ended = daemon_.profctl(args);
    EXPECT_EQ(ended.status, 0) << ended.err;
    return ended;
  }
  // What pprof prints without looking for any binary.
  static std::string pprof(const std::string& option, const std::filesystem::path& file) {
    return run({GO_PPROF_BINARY, "-symbolize=none", option, file}).out;
  }
  [[nodiscard]] std::filesystem::path file(const std::string& name) const {
    return directory_.path() / name;
  }

  Daemon daemon_;
  TemporaryDirectory directory_;
};

// The samples of each value of a label, by the decoded file.
std::map<std::string, std::int64_t> samples_by(const std::string& key,
                                               const std::filesystem::path& path) {
  std::map<std::string, std::int64_t> samples;
  const auto profile = decode_pprof(content_of(path));
  EXPECT_TRUE(profile.has_value());
  if (!profile) return samples;
  for (std::size_t i = 0; i < profile->samples().size(); ++i) {
    for (const PprofLabel& label : profile->labels(profile->samples()[i].labels)) {
      if (profile->text(label.key) != key) continue;
      samples[std::string(profile->text(label.text))] += profile->values(i)[0];
    }
  }
  return samples;
}

TEST_F(OneFileTest, PprofNamesAFileWithoutAnyBinary) {
  record({"-o", file("x.pb.gz")}, {workload("shares"), "1"});
  const std::string top = pprof("-top", file("x.pb.gz"));
  EXPECT_THAT(top, HasSubstr("hot_sixty"));
  EXPECT_THAT(top, HasSubstr("hot_thirty"));
  EXPECT_THAT(pprof("-tags", file("x.pb.gz")), HasSubstr(": shares\n"));
  EXPECT_FALSE(std::filesystem::exists(file("objects")));
}

TEST_F(OneFileTest, ThreadsAreLabelledByTheirFoldedNames) {
  record({"--threads", "-o", file("x.pb.gz")}, {workload("shares"), "0.5", "4"});
  const auto samples = samples_by("thread", file("x.pb.gz"));
  ASSERT_THAT(samples, Contains(::testing::Key("share-#")));
  ASSERT_THAT(samples, Contains(::testing::Key("shares")));
  // Three of the four threads have such a name, each with the same CPU time.
  const auto pool = static_cast<double>(samples.at("share-#"));
  const auto leader = static_cast<double>(samples.at("shares"));
  EXPECT_NEAR(pool / (pool + leader), 0.75, 0.1);
  record({"-o", file("without.pb.gz")}, {workload("shares"), "0.1"});
  EXPECT_TRUE(samples_by("thread", file("without.pb.gz")).empty());
}

TEST_F(OneFileTest, FoldedStacksGoToAFileOrToStandardOutput) {
  record({"-o", file("x.folded")}, {workload("shares"), "0.5"});
  const std::string folded = content_of(file("x.folded"));
  EXPECT_THAT(folded, HasSubstr(";hot_sixty "));
  std::istringstream lines(folded);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_THAT(line, ::testing::MatchesRegex("shares;.+ [1-9][0-9]*")) << line;
  }
  const Ended piped = daemon_.profctl(
      {"record", "--format", "folded", "-o", "-", "--comm", "no-such", "-d", "0.1s"});
  EXPECT_EQ(piped.status, 4) << piped.err;
  EXPECT_THAT(piped.err, HasSubstr("no process matched"));
  EXPECT_EQ(piped.out, "");
}

TEST_F(OneFileTest, SpeedscopeHasAProfileOfTheProcess) {
  record({"-o", file("x.speedscope.json")}, {workload("shares"), "0.5"});
  const auto json = boost::json::parse(content_of(file("x.speedscope.json")));
  const auto& profiles = json.at("profiles").as_array();
  ASSERT_EQ(profiles.size(), 1U);
  EXPECT_THAT(std::string(profiles[0].at("name").as_string()), HasSubstr("shares"));
  std::set<std::string> names;
  for (const auto& frame : json.at("shared").at("frames").as_array()) {
    names.emplace(frame.at("name").as_string());
  }
  EXPECT_THAT(names, Contains("hot_sixty"));
}

TEST_F(OneFileTest, TheSocketGivesAProfileOfTheNextSeconds) {
  const Process busy({workload("shares"), "600"});
  const Ended ended =
      run({"curl", "--silent", "--fail", "--unix-socket", daemon_.socket(), "--output",
           file("next.pb.gz"), "http://profd/debug/pprof/profile?seconds=2"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(pprof("-top", file("next.pb.gz")), HasSubstr("hot_sixty"));
  EXPECT_TRUE(std::filesystem::is_empty(daemon_.state() / "results"));
}

TEST_F(OneFileTest, AFileThatExistsIsRefusedBeforeTheCommandRuns) {
  std::ofstream(file("x.pb.gz")) << "precious";
  const Ended ended =
      daemon_.profctl({"record", "-o", file("x.pb.gz"), "--", "touch", file("mark").string()});
  EXPECT_EQ(ended.status, 125);
  EXPECT_THAT(ended.err, HasSubstr("exists, and no file is overwritten"));
  EXPECT_EQ(content_of(file("x.pb.gz")), "precious");
  EXPECT_FALSE(std::filesystem::exists(file("mark")));
}

TEST_F(OneFileTest, TheDirectoryOfAFileIsMade) {
  record({"-o", file("new/out/x.pb.gz")}, {workload("shares"), "0.2"});
  EXPECT_THAT(pprof("-top", file("new/out/x.pb.gz")), HasSubstr("hot_sixty"));
}

TEST_F(OneFileTest, WhatACommandPrintsIsNotInAProfileOnStandardOutput) {
  const Ended ended =
      record({"--format", "folded", "-o", "-"},
             {"sh", "-c", "echo words; exec " + workload("shares").string() + " 0.5"});
  EXPECT_THAT(ended.out, HasSubstr(";hot_sixty "));
  EXPECT_THAT(ended.out, Not(HasSubstr("words")));
  EXPECT_THAT(ended.err, HasSubstr("words\n"));
}

TEST_F(OneFileTest, ADirectoryHasNoFileMoreThanBefore) {
  record({"-o", file("out")}, {workload("shares"), "0.2"});
  for (const auto& entry : std::filesystem::directory_iterator(file("out"))) {
    EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr(".pb.gz")));
  }
}

}  // namespace
}  // namespace profd::e2e
