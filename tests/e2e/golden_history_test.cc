// The views of the history against an independent merge of its windows: what Go's pprof prints of
// their files, and the losses that this test put into them.

#include <signal.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <boost/json/parse.hpp>
#include <boost/json/value_to.hpp>
#include <gmock/gmock.h>

#include "daemon/history/hour_file.h"
#include "daemon/history/window_file.h"
#include "formats/api/history_api.h"
#include "formats/api/session_summary.h"
#include "tests/ctl/views/flame_file.h"
#include "tests/ctl/views/pprof_traces.h"
#include "tests/ctl/views/trace_merge.h"
#include "tests/daemon/history/named_windows.h"
#include "tests/e2e/harness.h"

namespace profd::e2e {
namespace {

namespace json = boost::json;
using test::NamedProcess;
using test::NamedWindow;
using test::Trace;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Windows of a minute each, from three hours ago on, in a daemon that makes none itself.
class GoldenHistoryTest : public ::testing::Test {
 protected:
  using Time = NamedWindow::Time;
  using Sums = std::map<std::string, std::int64_t>;
  using Counts = std::map<std::string, std::uint64_t>;
  static constexpr std::size_t kWindows = 6;

  void SetUp() override {
    daemon_.stop(SIGTERM);
    for (std::size_t i = 0; i < kWindows; ++i) add_window(i);
    daemon_.start();
  }

  [[nodiscard]] Time start_of(std::size_t window) const {
    return hour_ + static_cast<int>(window) * std::chrono::minutes(1);
  }
  // For --since and --until.
  [[nodiscard]] std::string at(std::size_t window) const {
    const auto since = std::chrono::floor<std::chrono::seconds>(start_of(window));
    return "@" + std::to_string(since.time_since_epoch().count());
  }
  [[nodiscard]] std::filesystem::path window_path(std::size_t window) const {
    return daemon_.state() / "windows" /
           (summaries_.at(window).session + std::string(kWindowFileEnd));
  }

  // Of the windows from `first` on, without `end`.
  [[nodiscard]] std::vector<Trace> traces_in(std::size_t first, std::size_t end) const {
    std::vector<Trace> traces;
    for (std::size_t i = first; i < end; ++i) {
      traces.insert(traces.end(), traces_.at(i).begin(), traces_.at(i).end());
    }
    return traces;
  }
  [[nodiscard]] CountsByReason lost_in(std::size_t first, std::size_t end) const {
    CountsByReason lost;
    for (std::size_t i = first; i < end; ++i) {
      for (const auto& [reason, count] : summaries_.at(i).ledger.lost) lost[reason] += count;
    }
    return lost;
  }
  // By "nginx 11".
  [[nodiscard]] Counts complete_in(std::size_t first, std::size_t end) const {
    Counts complete;
    for (std::size_t i = first; i < end; ++i) {
      for (const ProfileSummary& profile : summaries_.at(i).profiles) {
        complete[profile.comm + " " + std::to_string(profile.pid)] += profile.complete_samples;
      }
    }
    return complete;
  }

  static Sums process_sums(const std::vector<Trace>& traces) {
    Sums sums;
    for (const Trace& trace : traces) {
      sums[test::value_of_key("process", trace, "")] += trace.samples;
    }
    return sums;
  }
  // By service; of processes outside of services by command.
  static Sums group_sums(const std::vector<Trace>& traces) {
    Sums sums;
    for (const Trace& trace : traces) {
      const std::string unit = test::label_or(trace, "unit", "");
      sums[unit.ends_with(".service") ? unit : trace.labels.at("comm")] += trace.samples;
    }
    return sums;
  }

  static void expect_sums(const WindowShares& shown, const std::vector<Trace>& traces,
                          double seconds) {
    std::int64_t all = 0;
    for (const Trace& trace : traces) all += trace.samples;
    EXPECT_EQ(shown.samples, static_cast<std::uint64_t>(all));
    EXPECT_EQ(shown.seconds, seconds);
    // Each sample is 52.632 ms.
    EXPECT_NEAR(shown.cpu_percent, static_cast<double>(all) * 5.2632 / seconds, 1e-6);
    Sums processes;
    for (const ProcessShare& process : shown.processes) {
      processes[process.comm + " " + std::to_string(process.pid)] +=
          static_cast<std::int64_t>(process.samples);
    }
    EXPECT_EQ(processes, process_sums(traces));
    Sums groups;
    for (const GroupShare& group : shown.groups) {
      groups[group.name] += static_cast<std::int64_t>(group.samples);
    }
    EXPECT_EQ(groups, group_sums(traces));
  }

  [[nodiscard]] json::value report(const Args& source, const std::string& by) const {
    Args args{"report"};
    args.insert(args.end(), source.begin(), source.end());
    args.insert(args.end(), {"--by", by, "--names", "full", "--json"});
    const Ended shown = daemon_.profctl(args);
    EXPECT_EQ(shown.status, 0) << shown.err;
    return json::parse(shown.out.empty() ? R"({"rows":[]})" : shown.out);
  }

  Daemon daemon_;
  TemporaryDirectory directory_;
  const Time hour_ = std::chrono::floor<std::chrono::hours>(std::chrono::system_clock::now()) -
                     std::chrono::hours(3);
  std::vector<SessionSummary> summaries_;   // of the windows
  std::vector<std::vector<Trace>> traces_;  // likewise

 private:
  static NamedProcess busy_process(std::uint32_t pid, const std::string& comm,
                                   const std::string& cgroup, std::uint64_t samples) {
    NamedProcess made;
    made.pid = pid;
    made.comm = comm;
    made.cgroup = cgroup;
    made.user = pid % 2 == 0 ? 0U : 1000U;
    made.file = "/usr/bin/" + comm;
    made.stacks = {
        {.functions = {"hot_" + comm, "serve", "main"}, .samples = samples},
        {.functions = {"k:vfs_read", "read_all", "serve", "main"}, .samples = 2},
        {.functions = {"walk", "walk", "main"}, .samples = 1},
    };
    return made;
  }

  // Five processes, as many as a list has for each window. Some of their stacks are incomplete.
  void add_window(std::size_t number) {
    NamedWindow window(start_of(number));
    window.add(busy_process(11, "nginx", "/system.slice/web.service", 20 + 3 * number));
    window.add(busy_process(21, "tar", "/system.slice/backup.service", number % 2 == 0 ? 7U : 1U));
    const auto another = static_cast<std::uint32_t>(50 + number);
    window.add(busy_process(another, "gzip", "/system.slice/backup.service", 4));
    const std::string scope = "/user.slice/user-1000.slice/session-3.scope";
    window.add(busy_process(31, "cc1plus", scope, 5 + number));
    window.add(busy_process(40, "kworker", "", 2));
    window.lose({{"ring_full", 1 + number}, {"no_memory", 3}});
    SessionSummary summary = window.summary();
    for (ProfileSummary& profile : summary.profiles) {
      profile.incomplete = {{"no_row", profile.samples / 4}, {"window", 1}};
      profile.complete_samples = profile.samples - sum_of(profile.incomplete);
    }
    const auto written = write_window(daemon_.state() / "windows", summary.session,
                                      encode_window(window.profile(), summary, window.record()));
    ASSERT_TRUE(written) << written.error().message;
    summaries_.push_back(summary);
    traces_.push_back(test::traces_of(window_path(number)));
    ASSERT_FALSE(traces_.back().empty());
  }
};

TEST_F(GoldenHistoryTest, EachLineOfTheHistoryHasTheSumsOfItsWindow) {
  const auto history = parse_history(daemon_.profctl({"history", "--json"}).out);
  ASSERT_TRUE(history);
  ASSERT_THAT(history->windows, SizeIs(kWindows));
  for (std::size_t i = 0; i < kWindows; ++i) {
    SCOPED_TRACE(i);
    expect_sums(history->windows[i], traces_[i], 60);
    EXPECT_EQ(history->windows[i].lost, lost_in(i, i + 1));
  }
}

TEST_F(GoldenHistoryTest, PsHasTheSumsOfARange) {
  const auto shown = parse_window_shares(
      daemon_.profctl({"ps", "--since", at(1), "--until", at(4), "--json"}).out);
  ASSERT_TRUE(shown);
  expect_sums(*shown, traces_in(1, 4), 180);
  EXPECT_EQ(shown->lost, lost_in(1, 4));
  Counts complete;
  for (const ProcessShare& process : shown->processes) {
    complete[process.comm + " " + std::to_string(process.pid)] += process.complete_samples;
    EXPECT_EQ(process.user_samples, process.samples) << process.comm;
  }
  EXPECT_EQ(complete, complete_in(1, 4));
}

TEST_F(GoldenHistoryTest, ATargetHasTheSumsOfItsOwnSamples) {
  std::vector<Trace> traces;
  for (const Trace& trace : traces_in(0, kWindows)) {
    if (test::label_or(trace, "unit", "") == "backup.service") traces.push_back(trace);
  }
  const auto shown = parse_window_shares(
      daemon_.profctl({"ps", "--since", at(0), "--until", at(kWindows), "-u", "backup", "--json"})
          .out);
  ASSERT_TRUE(shown);
  expect_sums(*shown, traces, 360);
  EXPECT_THAT(shown->lost, IsEmpty());  // nobody knows whose samples were lost
  const Args source{"--since", at(0), "--until", at(kWindows), "-u", "backup"};
  EXPECT_EQ(test::rows_of_report(report(source, "process,function")),
            test::merged_rows(traces, {"process", "function"}));
}

TEST_F(GoldenHistoryTest, AReportHasTheSumsOfTheWindowsOfItsRange) {
  const auto traces = traces_in(2, 5);
  for (const std::vector<std::string>& keys :
       std::vector<std::vector<std::string>>{{"function"},
                                             {"unit"},
                                             {"process"},
                                             {"user"},
                                             {"container"},
                                             {"runtime"},
                                             {"unit", "function"},
                                             {"function", "process"}}) {
    const std::string by = keys.size() == 1 ? keys[0] : keys[0] + "," + keys[1];
    const auto expected = test::merged_rows(traces, keys);
    EXPECT_EQ(test::rows_of_report(report({at(2) + ".." + at(5)}, by)), expected) << by;
    EXPECT_EQ(test::rows_of_report(report({"--since", at(2), "--until", at(5)}, by)), expected)
        << by;
  }
}

// All windows are of the last six hours.
TEST_F(GoldenHistoryTest, AFlameGraphOfTheLastTimeHasTheSumsOfItsReport) {
  const auto all = traces_in(0, kWindows);
  std::vector<Trace> of_backup;
  for (const Trace& trace : all) {
    if (test::label_or(trace, "unit", "") == "backup.service") of_backup.push_back(trace);
  }
  ASSERT_FALSE(of_backup.empty());
  for (const bool has_target : {false, true}) {
    const Args source = has_target ? Args{"--last", "6h", "-u", "backup"} : Args{"--last", "6h"};
    const std::string name = has_target ? "backup.html" : "all.html";
    const std::filesystem::path file = directory_.path() / name;
    Args args{"flame", "--names", "full", "-o", file.string()};
    args.insert(args.end(), source.begin(), source.end());
    const Ended drawn = daemon_.profctl(args);
    ASSERT_EQ(drawn.status, 0) << drawn.err;
    const json::value data = test::data_of_html(slurp(file));
    const std::vector<Trace>& traces = has_target ? of_backup : all;
    EXPECT_EQ(test::paths_of_data(data), test::paths_of(traces));
    const auto sums = test::function_sums(test::traces_of_data(data));
    EXPECT_EQ(sums, test::function_sums(traces));
    EXPECT_EQ(sums, test::row_sums(report(source, "function").at("rows")));
  }
}

TEST_F(GoldenHistoryTest, ADifferenceOfTwoTimesIsThatOfTheirWindows) {
  const auto percent_of = [](const std::vector<Trace>& traces) {
    double all = 0;
    for (const Trace& trace : traces) all += static_cast<double>(trace.samples);
    std::map<std::string, double> percent;
    for (const auto& [name, row] : test::merged_rows(traces, {"unit"})) {
      percent[name] = 100 * static_cast<double>(row.sum.self) / all;
    }
    return percent;
  };
  auto base = percent_of(traces_in(0, 2));
  auto now = percent_of(traces_in(3, 6));
  const Ended shown = daemon_.profctl(
      {"diff", at(0) + ".." + at(2), at(3) + ".." + at(6), "--by", "unit", "--json"});
  ASSERT_EQ(shown.status, 0) << shown.err;
  const json::value diff = json::parse(shown.out);
  EXPECT_EQ(diff.at("rows").as_array().size(), base.size());
  for (const json::value& row : diff.at("rows").as_array()) {
    const auto name = json::value_to<std::string>(row.at("name"));
    EXPECT_NEAR(row.at("change").to_number<double>(), now[name] - base[name], 1e-6) << name;
  }
}

TEST_F(GoldenHistoryTest, AnExportHasTheLossesAndIncompleteStacksOfItsWindows) {
  const std::filesystem::path output = directory_.path() / "out";
  const Ended exported =
      daemon_.profctl({"export", "--since", at(1), "--until", at(4), "-o", output});
  ASSERT_EQ(exported.status, 0) << exported.err;
  const SessionSummary summary = read_summary(output);
  std::map<std::string, CountsByReason> expected;
  for (std::size_t i = 1; i < 4; ++i) {
    for (const ProfileSummary& profile : summaries_[i].profiles) {
      for (const auto& [reason, count] : profile.incomplete) {
        expected[profile.comm + " " + std::to_string(profile.pid)][reason] += count;
      }
    }
  }
  std::map<std::string, CountsByReason> incomplete;
  Sums samples;
  for (const ProfileSummary& profile : summary.profiles) {
    const std::string name = profile.comm + " " + std::to_string(profile.pid);
    incomplete[name] = profile.incomplete;
    samples[name] = static_cast<std::int64_t>(profile.samples);
  }
  EXPECT_EQ(incomplete, expected);
  EXPECT_EQ(samples, process_sums(traces_in(1, 4)));
  EXPECT_EQ(summary.ledger.lost, lost_in(1, 4));
  EXPECT_EQ(summary.ledger.difference(), 0);
}

// The file of an hour stands for windows that are gone.
TEST_F(GoldenHistoryTest, AnHourHasTheSumsOfTheWindowsThatItWasMadeOf) {
  daemon_.stop(SIGTERM);
  HourPlan plan{.windows_dir = daemon_.state() / "windows",
                .hours_dir = daemon_.state() / "hours",
                .name = window_name(hour_),
                .start = hour_};
  plan.windows.reserve(kWindows);
  for (const SessionSummary& summary : summaries_) plan.windows.push_back(summary.session);
  HourMaker maker(std::move(plan));
  while (!maker.advance(std::chrono::seconds(1)).value()) {
  }
  const std::string name = maker.take().name + std::string(kWindowFileEnd);
  const auto of_file = test::traces_of(daemon_.state() / "hours" / name);
  for (std::size_t i = 0; i < kWindows; ++i) std::filesystem::remove(window_path(i));
  daemon_.start();
  const auto traces = traces_in(0, kWindows);
  const std::string range = at(0) + ".." + at(60);
  for (const std::vector<std::string>& keys :
       std::vector<std::vector<std::string>>{{"function"}, {"unit"}, {"user", "function"}}) {
    const std::string by = keys.size() == 1 ? keys[0] : keys[0] + "," + keys[1];
    const auto expected = test::merged_rows(traces, keys);
    EXPECT_EQ(test::merged_rows(of_file, keys), expected) << "the file by " << by;
    EXPECT_EQ(test::rows_of_report(report({range}, by)), expected) << by;
  }
  const auto history = parse_history(daemon_.profctl({"history", "--json"}).out);
  ASSERT_TRUE(history);
  ASSERT_THAT(history->windows, SizeIs(1));
  EXPECT_EQ(history->windows[0].lost, lost_in(0, kWindows));
  EXPECT_EQ(history->windows[0].seconds, 360);
}

// What was damaged while the daemon was away is set aside at its start.
TEST_F(GoldenHistoryTest, DamagedWindowsAreLeftOutAndTheOthersAreRead) {
  daemon_.stop(SIGTERM);
  std::filesystem::resize_file(window_path(1), std::filesystem::file_size(window_path(1)) / 2);
  std::filesystem::remove(window_path(2));
  ASSERT_EQ(::mkfifo(window_path(2).c_str(), 0600), 0);
  std::filesystem::remove(window_path(3));
  std::filesystem::create_directory(window_path(3));
  daemon_.start();
  auto traces = traces_in(0, 1);
  for (const Trace& trace : traces_in(4, kWindows)) traces.push_back(trace);
  EXPECT_EQ(test::rows_of_report(report({at(0) + ".." + at(kWindows)}, "unit,function")),
            test::merged_rows(traces, {"unit", "function"}));
  const auto history = parse_history(daemon_.profctl({"history", "--json"}).out);
  ASSERT_TRUE(history);
  EXPECT_THAT(history->windows, SizeIs(3));
  EXPECT_EQ(daemon_.status().continuous.malformed, 3U);
}

TEST_F(GoldenHistoryTest, AWindowThatIsDamagedMeanwhileIsMissingByName) {
  std::filesystem::resize_file(window_path(2), std::filesystem::file_size(window_path(2)) / 2);
  auto traces = traces_in(0, 2);
  for (const Trace& trace : traces_in(3, kWindows)) traces.push_back(trace);
  const std::string range = at(0) + ".." + at(kWindows);
  EXPECT_EQ(test::rows_of_report(report({range}, "function")),
            test::merged_rows(traces, {"function"}));
  EXPECT_THAT(daemon_.profctl({"report", range}).err,
              HasSubstr("1 window of this time could not be read: the samples of it are missing"));
  // Of this one alone, nothing is left.
  const Ended alone = daemon_.profctl({"report", at(2) + ".." + at(3)});
  EXPECT_EQ(alone.status, 1);
  EXPECT_THAT(alone.err, HasSubstr("no window of this range could be read"));
  EXPECT_THAT(alone.err, HasSubstr("hint: the log of profd says why"));
}

TEST_F(GoldenHistoryTest, AFileOfTheHistoryIsASourceAndItsDirectoryIsNone) {
  EXPECT_EQ(test::rows_of_report(report({window_path(0)}, "user,function")),
            test::merged_rows(traces_[0], {"user", "function"}));
  const Ended directory = daemon_.profctl({"report", daemon_.state() / "windows"});
  EXPECT_EQ(directory.status, 2);
  EXPECT_THAT(directory.err, HasSubstr("has no session.json"));
  EXPECT_THAT(directory.err, HasSubstr("hint: name one of its files"));
  std::filesystem::resize_file(window_path(0), std::filesystem::file_size(window_path(0)) / 2);
  const Ended cut = daemon_.profctl({"report", window_path(0)});
  EXPECT_EQ(cut.status, 1);
  EXPECT_THAT(cut.err, HasSubstr(window_path(0).string() + ": "));
  EXPECT_THAT(cut.err, HasSubstr("hint: "));
}

}  // namespace
}  // namespace profd::e2e
