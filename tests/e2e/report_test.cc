// `profctl report` and `diff` of what a real profd sampled: each source, against what both pprofs
// read.

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include <boost/json/parse.hpp>
#include <boost/json/value_to.hpp>

#include "tests/ctl/views/pprof_traces.h"
#include "tests/e2e/recording.h"

namespace profd::e2e {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using ::testing::HasSubstr;
using ::testing::Not;

// Lines as a terminal has them: without colours and the returns that the terminal adds.
std::vector<std::string> lines_without_colors(const std::string& text) {
  static const std::regex kColors("\x1b\\[[0-9;]*m");
  std::vector<std::string> lines;
  std::istringstream whole(text);
  for (std::string line; std::getline(whole, line);) {
    std::erase(line, '\r');
    lines.push_back(std::regex_replace(line, kColors, ""));
  }
  return lines;
}

// Each character of UTF-8 has one byte that is not inside of it; none here is wider.
std::size_t columns_in(const std::string& line) {
  return static_cast<std::size_t>(
      std::ranges::count_if(line, [](char byte) { return (byte & 0xc0) != 0x80; }));
}

// Of a table below a heading. A terminal breaks the heading, and other sentences. Returns how many
// lines the table has.
std::size_t expect_table_fits(const std::string& shown, std::size_t columns) {
  const auto lines = lines_without_colors(shown);
  const auto is_sentence = [](const std::string& line) {
    return line.starts_with("...") || line.starts_with("profctl: ") || line.starts_with("hint: ");
  };
  std::size_t rows = 0;
  for (auto line = std::ranges::find(lines, ""); line != lines.end(); ++line) {
    if (line->empty() || is_sentence(*line)) continue;
    EXPECT_LE(columns_in(*line), columns) << *line;
    ++rows;
  }
  return rows;
}

class ReportsTest : public RecordingTest {
 protected:
  Args record_file(const std::string& name, const Args& command) {
    const std::string file = directory_.path() / name;
    Args args{"record", "-F", "499", "-o", file, "--"};
    args.insert(args.end(), command.begin(), command.end());
    const Ended ended = daemon_.profctl(args);
    EXPECT_EQ(ended.status, 0) << ended.err;
    return {file};
  }
  static json::value parsed(const Ended& ended) {
    EXPECT_EQ(ended.status, 0) << ended.err;
    return json::parse(ended.out.empty() ? "null" : ended.out);
  }
  json::value report(Args args) {
    args.insert(args.begin(), "report");
    args.emplace_back("--json");
    return parsed(daemon_.profctl(args));
  }
  static test::TraceSums sums_of(const json::value& report) {
    return test::row_sums(report.at("rows"));
  }
  static double share_of(const json::value& report, const std::string& name) {
    for (const json::value& row : report.at("rows").as_array()) {
      if (json::value_to<std::string>(row.at("name")) == name) {
        return row.at("self_percent").to_number<double>();
      }
    }
    return 0;
  }
};

TEST_F(ReportsTest, AFileHasTheSumsOfPprofsTraces) {
  const std::string file = record_file("x.pb.gz", {workload("shares"), "1"})[0];
  const json::value shown = report({file, "--names", "full"});
  EXPECT_EQ(sums_of(shown), test::function_sums(test::traces_of(file)));
  EXPECT_NEAR(share_of(shown, "hot_sixty"), 60, 10);
  EXPECT_GT(shown.at("duration_ns").as_int64(), 0);
}

TEST_F(ReportsTest, TheFormsOfOneRecordingHaveTheSameFunctions) {
  const std::string file = record_file("x.pb.gz", {workload("shares"), "0.5"})[0];
  const std::string folded = record_file("x.folded", {workload("shares"), "0.5"})[0];
  const double of_file = share_of(report({file}), "hot_sixty");
  EXPECT_NEAR(of_file, share_of(report({folded}), "hot_sixty"), 15);
}

// Names of addresses come from the programs, as pprof finds them.
TEST_F(ReportsTest, ADirectoryHasTheSamplesAndNamesThatPprofFinds) {
  const SessionSummary summary = record({"-F", "499"}, {workload("shares"), "1"});
  const json::value shown = report({output_});
  std::int64_t self = 0;
  for (const auto& [name, sum] : sums_of(shown)) self += sum.self;
  EXPECT_EQ(static_cast<std::uint64_t>(self), summary.ledger.written);
  const auto profiles = profiles_of(summary, "shares");
  ASSERT_FALSE(profiles.empty());
  const json::value one = report({file(profiles[0])});
  const Report pprof = go_pprof(file(profiles[0]));
  for (const char* const name : {"hot_sixty", "hot_thirty", "hot_ten"}) {
    ASSERT_TRUE(pprof.flat.contains(name)) << pprof.text;
    EXPECT_NEAR(share_of(one, name), pprof.flat.at(name), 0.06) << name;
  }
}

TEST_F(ReportsTest, KernelFunctionsAreOfTheKernelInEachForm) {
  const auto kernel_total = [this](const std::string& source) {
    std::int64_t samples = 0;
    const json::value shown = report({source});
    for (const json::value& row : shown.at("rows").as_array()) {
      if (row.at("kind").as_string() == "kernel") {
        samples += row.at("self").at("samples").as_int64();
      }
    }
    return samples;
  };
  EXPECT_GT(kernel_total(record_file("x.pb.gz", {workload("reader"), "0.5"})[0]), 0);
  record({"-F", "499"}, {workload("reader"), "0.5"});
  EXPECT_GT(kernel_total(output_), 0);
}

TEST_F(ReportsTest, ASessionIsShownWhileItRuns) {
  Process busy({workload("shares"), "60"});
  const std::string session =
      first_line(daemon_.profctl({"start", "-F", "499", "-p", std::to_string(busy.pid())}).out);
  EXPECT_TRUE(eventually([&] {
    const Ended shown = daemon_.profctl({"report", session, "--json"});
    return shown.status == 0 && share_of(json::parse(shown.out), "hot_sixty") > 40;
  }));
  EXPECT_EQ(daemon_.profctl({"stop", session, "-o", output_}).status, 0);
}

TEST_F(ReportsTest, ADifferenceShowsWhatIsNew) {
  const std::string base = record_file("base.pb.gz", {workload("shares"), "0.5"})[0];
  const std::string now = record_file("new.pb.gz", {workload("reader"), "0.5"})[0];
  const Ended same = daemon_.profctl({"diff", base, base, "--threshold", "1%"});
  EXPECT_EQ(same.status, 0) << same.err;
  EXPECT_THAT(same.out, HasSubstr("no change"));
  const Ended other = daemon_.profctl({"diff", base, now, "--threshold", "5%"});
  EXPECT_EQ(other.status, 1);
  EXPECT_THAT(other.out, HasSubstr("hot_sixty"));
  EXPECT_THAT(other.out, HasSubstr("gone"));
}

TEST_F(ReportsTest, AFileOfAnotherUserIsReadByASandboxedProcess) {
  const std::string file = record_file("x.pb.gz", {workload("shares"), "0.3"})[0];
  const json::value own = report({file});
  ASSERT_EQ(::chown(file.c_str(), kSomebody, kSomebody), 0);
  EXPECT_EQ(report({file}), own);
}

// Another user has the directory, and may not read one of its profiles; then nothing of it.
TEST_F(ReportsTest, WhatMayNotBeReadIsSaidAndTheRestIsShown) {
  const std::string shares = workload("shares");
  const SessionSummary summary =
      record({"-F", "499"}, {"sh", "-c", shares + " 0.5 & " + shares + " 0.5; wait"});
  const auto profiles = profiles_of(summary, "shares");
  ASSERT_GE(profiles.size(), 2U);
  Process::Options nobody;
  nobody.uid = kNobody;
  fs::permissions(output_, fs::perms(0755));
  for (const auto& entry : fs::recursive_directory_iterator(output_)) {
    fs::permissions(entry.path(), fs::perms(entry.is_directory() ? 0755 : 0644));
  }
  fs::permissions(file(profiles[0]), fs::perms(0600));
  const Ended shown = daemon_.profctl({"report", output_, "--by", "process", "--json"}, nobody);
  std::int64_t samples = 0;
  for (const auto& [name, sum] : sums_of(parsed(shown))) samples += sum.total;
  EXPECT_EQ(static_cast<std::uint64_t>(samples), summary.ledger.written - profiles[0].samples);
  EXPECT_THAT(shown.err, HasSubstr("1 of " + std::to_string(summary.profiles.size()) +
                                   " profiles could not be read"));
  EXPECT_THAT(shown.err, HasSubstr("Permission denied"));
  fs::permissions(output_, fs::perms(0700));
  const Ended refused = daemon_.profctl({"report", output_}, nobody);
  EXPECT_EQ(refused.status, 5);
  EXPECT_THAT(refused.err, HasSubstr("session.json: Permission denied"));
  EXPECT_THAT(refused.err, HasSubstr("hint: read it as root"));
}

TEST_F(ReportsTest, APipeGetsPlainText) {
  const std::string file = record_file("x.pb.gz", {workload("shares"), "0.3"})[0];
  const Ended shown = daemon_.profctl({"report", file});
  EXPECT_THAT(shown.out, HasSubstr("hot_sixty"));
  EXPECT_THAT(shown.out, Not(HasSubstr("\x1b")));
}

// By script(1): a terminal of 40 columns, and a name that has more.
TEST_F(ReportsTest, ATerminalGetsColoursAndLinesThatFit) {
  const std::string file = record_file("x.pb.gz", {workload("reader"), "0.3"})[0];
  const std::string wide = directory_.path() / "wide.folded";
  std::ofstream(wide) << "main;" << std::string(200, 'w') << "_end 5\n";
  const auto on_terminal = [](const std::string& environment, const std::string& shown) {
    return run({"script", "-qec",
                "stty cols 40 rows 24; " + environment + " " PROFCTL_BINARY " report --no-pager " +
                    shown,
                "/dev/null"})
        .out;
  };
  const std::string colored = on_terminal("TERM=xterm", file);
  EXPECT_THAT(colored, HasSubstr("\x1b[33m"));
  EXPECT_GE(expect_table_fits(colored, 40), 2U);  // the titles and a row
  const std::string cut = on_terminal("TERM=xterm", wide);
  EXPECT_EQ(expect_table_fits(cut, 40), 3U);
  EXPECT_THAT(cut, HasSubstr("www_end"));  // the end of the name
  EXPECT_THAT(on_terminal("TERM=xterm NO_COLOR=1", file), Not(HasSubstr("\x1b[")));
  EXPECT_THAT(on_terminal("TERM=dumb", file), Not(HasSubstr("\x1b[")));
}

TEST_F(ReportsTest, LongTextGoesThroughThePager) {
  const std::string file = record_file("x.pb.gz", {workload("reader"), "0.3"})[0];
  const std::string shown =
      run({"script", "-qec",
           "stty cols 80 rows 5; PAGER='sed s/^/paged:/' " PROFCTL_BINARY " report --all " + file,
           "/dev/null"})
          .out;
  EXPECT_THAT(shown, HasSubstr("paged:"));
}

TEST(HistoryReportTest, TheHistoryIsShownByRangeAndTarget) {
  TemporaryDirectory scratch;
  const fs::path config = scratch.path() / "profd.toml";
  std::ofstream(config) << "[continuous]\nenabled = true\nwindow = \"2s\"\nfrequency = 499\n";
  Daemon::Options options;
  options.arguments = {"--config", config};
  const Daemon daemon(std::move(options));
  Process busy({workload("shares"), "60"});
  const auto shows = [&](const Args& args) {
    Args all{"report", "--json"};
    all.insert(all.end(), args.begin(), args.end());
    const Ended shown = daemon.profctl(all);
    return shown.status == 0 && shown.out.find("\"hot_sixty\"") != std::string::npos;
  };
  EXPECT_TRUE(eventually([&] { return shows({}); }));
  EXPECT_TRUE(shows({"--last", "5m", "-n", "shares"}));
  EXPECT_TRUE(shows({"-p", std::to_string(busy.pid())}));
  EXPECT_TRUE(shows({"5m ago.."}));
  EXPECT_EQ(daemon.profctl({"report", "-n", "nosuch"}).status, 4);
  EXPECT_EQ(daemon.profctl({"report", "--since", "2000-01-01", "--until", "2000-01-02"}).status, 4);
  const Ended units = daemon.profctl({"report", "--by", "process,function"});
  EXPECT_THAT(units.out, HasSubstr("shares " + std::to_string(busy.pid())));
}

}  // namespace
}  // namespace profd::e2e
