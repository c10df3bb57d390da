// The history through profctl: a daemon that keeps windows of 1 s, and their lists and exports.

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include <gmock/gmock.h>

#include "daemon/history/window_file.h"
#include "formats/api/history_api.h"
#include "formats/profile/gperftools_reader.h"
#include "formats/profile/pprof_reader.h"
#include "tests/e2e/harness.h"

namespace profd::e2e {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::Field;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::Truly;
using ::testing::UnorderedElementsAre;

std::filesystem::path written(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path) << text;
  return path;
}

// Below the cgroup v2 mount, with the processes that are started in it.
class TestUnit {
 public:
  TestUnit() : name_("profd-test-" + std::to_string(::getpid()) + ".service") {
    const bool unified = std::filesystem::exists("/sys/fs/cgroup/cgroup.procs");
    path_ = std::string(unified ? "/sys/fs/cgroup/" : "/sys/fs/cgroup/unified/") + name_;
    std::filesystem::create_directory(path_);
  }
  TestUnit(const TestUnit&) = delete;
  TestUnit& operator=(const TestUnit&) = delete;
  // A killed process leaves its cgroup a little after it was reaped.
  ~TestUnit() {
    EXPECT_TRUE(eventually([this] { return ::rmdir(path_.c_str()) == 0; }));
  }

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] Process::Options inside() const {
    Process::Options options;
    options.before_exec = [procs = path_ / "cgroup.procs"] { std::ofstream(procs) << ::getpid(); };
    return options;
  }

 private:
  std::string name_;
  std::filesystem::path path_;
};

class HistoryTest : public ::testing::Test {
 protected:
  [[nodiscard]] static History parsed(const Ended& shown) {
    const auto history = parse_history(shown.out);
    return history ? *history : History();
  }

  [[nodiscard]] History history() const { return parsed(daemon_.profctl({"history", "--json"})); }

  // Returns the number of windows that have samples of `comm`.
  [[nodiscard]] std::size_t windows_with(const std::string& comm) const {
    const History all = history();
    return static_cast<std::size_t>(
        std::ranges::count_if(all.windows, [&comm](const WindowShares& window) {
          return std::ranges::find(window.processes, comm, &ProcessShare::comm) !=
                 window.processes.end();
        }));
  }

  void wait_for_windows_with(const std::string& comm, std::size_t count) const {
    EXPECT_TRUE(eventually([&] { return windows_with(comm) >= count; })) << comm;
  }

  // Reads the windows directly from the disk.
  [[nodiscard]] std::uint64_t samples_in_windows(const std::string& comm) const {
    std::uint64_t sum = 0;
    const std::filesystem::path windows = daemon_.state() / "windows";
    for (const auto& entry : std::filesystem::directory_iterator(windows)) {
      const auto window = WindowFile::open(windows, entry.path().stem().stem());
      if (!window) continue;
      for (const ProfileSummary& profile : profiles_of(window->summary(), comm)) {
        sum += profile.samples;
      }
    }
    return sum;
  }

  // No window of this daemon ends before the export.
  void start_again_without_windows() {
    written(config_, "[continuous]\nenabled = true\nwindow = \"10m\"\nfrequency = 199\n");
    daemon_.start();
  }

  static std::uint64_t samples_in(const PprofProfile& profile) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < profile.samples().size(); ++i) {
      sum += static_cast<std::uint64_t>(profile.values(i)[0]);
    }
    return sum;
  }

  static Process::Options as_nobody() {
    Process::Options options;
    options.uid = kNobody;
    return options;
  }

  TemporaryDirectory directory_;
  std::filesystem::path config_ = written(directory_.path() / "profd.toml",
                                          "[continuous]\n"
                                          "enabled = true\n"
                                          "window = \"1s\"\n"
                                          "frequency = 199\n");
  Daemon daemon_{{.arguments = {"--config", config_}, .process = {}}};
  std::filesystem::path output_ = directory_.path() / "out";
};

TEST_F(HistoryTest, AnExportIsTheSumOfTheWindowsAndBothPprofsReadIt) {
  const Process busy({workload("shares"), "600"});
  wait_for_windows_with("shares", 3);
  daemon_.stop(SIGTERM);
  const std::uint64_t expected = samples_in_windows("shares");
  start_again_without_windows();
  const Ended exported =
      daemon_.profctl({"export", "-n", "shares", "--until", "now", "-o", output_});
  ASSERT_EQ(exported.status, 0) << exported.err;
  const SessionSummary summary = read_summary(output_);
  ASSERT_THAT(summary.profiles, SizeIs(1));
  EXPECT_EQ(summary.ledger.difference(), 0);
  EXPECT_EQ(summary.profiles[0].samples, expected);
  const std::filesystem::path profile = output_ / summary.profiles[0].path;
  EXPECT_EQ(decode_gperftools(slurp(profile))->samples(), expected);
  for (const Report& report : {go_pprof(profile), perl_pprof(workload("shares"), profile)}) {
    EXPECT_NEAR(report.flat.at("hot_sixty"), 60, 10) << report.text;
    EXPECT_NEAR(report.cumulative.at("main"), 100, 5) << report.text;
  }
}

TEST_F(HistoryTest, AnExportIsOneFileInWhichTheFramesHaveNames) {
  const Process busy({workload("shares"), "600"});
  wait_for_windows_with("shares", 2);
  daemon_.stop(SIGTERM);
  const std::uint64_t expected = samples_in_windows("shares");
  start_again_without_windows();
  const std::filesystem::path file = directory_.path() / "x.pb.gz";
  const Ended exported = daemon_.profctl({"export", "-n", "shares", "--until", "now", "-o", file});
  ASSERT_EQ(exported.status, 0) << exported.err;
  const Report report = named_report(file, "shares");
  EXPECT_NEAR(report.flat.at("hot_sixty"), 60, 10) << report.text;
  EXPECT_NEAR(report.cumulative.at("main"), 100, 5) << report.text;
  const auto profile = decode_pprof(slurp(file));
  ASSERT_TRUE(profile.has_value());
  EXPECT_EQ(samples_in(*profile), expected);
  const Ended folded = daemon_.profctl(
      {"export", "-n", "shares", "--until", "now", "-o", "-", "--format", "folded"});
  ASSERT_EQ(folded.status, 0) << folded.err;
  EXPECT_THAT(folded.out, HasSubstr("main;"));
}

TEST_F(HistoryTest, ASplitExportHasAFileForEachProcess) {
  const Process one({workload("shares"), "600"});
  const Process two({workload("shares"), "600"});
  wait_for_windows_with("shares", 2);
  const Ended exported =
      daemon_.profctl({"export", "-p", std::to_string(one.pid()), "-p", std::to_string(two.pid()),
                       "--last", "1h", "--by", "process", "-o", output_, "--json"});
  ASSERT_EQ(exported.status, 0) << exported.err;
  const auto summary = parse_session_summary(exported.out);
  ASSERT_TRUE(summary);
  std::uint64_t samples = 0;
  for (const Process* process : {&one, &two}) {
    const std::filesystem::path file =
        output_ / ("shares." + std::to_string(process->pid()) + ".pb.gz");
    ASSERT_TRUE(std::filesystem::exists(file)) << exported.out;
    EXPECT_NEAR(named_report(file, "shares").flat.at("hot_sixty"), 60, 15);
  }
  for (const auto& entry : std::filesystem::directory_iterator(output_)) {
    samples += samples_in(*decode_pprof(slurp(entry.path())));
  }
  EXPECT_EQ(samples, summary->ledger.written);
}

TEST_F(HistoryTest, ARangeIsCutToItsWindows) {
  const Process busy({workload("shares"), "600"});
  wait_for_windows_with("shares", 3);
  const History all = history();
  const WindowShares& last = all.windows.back();
  const WindowShares& second = all.windows[all.windows.size() - 2];
  const auto text = [](const WindowShares& window) { return window.started; };
  const Ended exported = daemon_.profctl(
      {"export", "--since", text(second), "--until", text(last), "-o", output_, "--json"});
  ASSERT_EQ(exported.status, 0) << exported.err;
  const SessionSummary summary = read_summary(output_);
  // A range begins with a whole second, in which the window before may have ended.
  const WindowShares& before = all.windows[all.windows.size() - 3];
  const bool has_before = summary.started == before.started;
  EXPECT_TRUE(has_before || summary.started == second.started) << summary.started;
  EXPECT_EQ(summary.ledger.written, second.samples + (has_before ? before.samples : 0));
  EXPECT_EQ(summary.ledger.difference(), 0);
}

TEST_F(HistoryTest, PsShowsBusyProcessesWithTheirUnits) {
  const TestUnit unit;
  const Process busy({workload("shares"), "600"}, unit.inside());
  wait_for_windows_with("shares", 1);
  const Ended shown = daemon_.profctl({"ps", "--json", "-u", unit.name()});
  ASSERT_EQ(shown.status, 0) << shown.err;
  const auto window = parse_window_shares(shown.out);
  ASSERT_TRUE(window);
  // The process may have been sampled before its exec, too.
  const auto pid = static_cast<std::uint32_t>(busy.pid());
  EXPECT_THAT(window->processes, Each(Field(&ProcessShare::pid, pid)));
  EXPECT_THAT(window->processes, Contains(Field(&ProcessShare::comm, "shares")).Times(1));
  EXPECT_EQ(window->processes[0].unit, unit.name());
  EXPECT_GT(window->processes[0].cpu_percent, 0);
  const Ended table = daemon_.profctl({"ps", "-n", "100"});
  EXPECT_THAT(table.out, HasSubstr("COMPLETE"));
  EXPECT_THAT(table.out, HasSubstr(unit.name()));
  const Ended exported =
      daemon_.profctl({"export", "--last", "1h", "-u", unit.name(), "-o", output_});
  ASSERT_EQ(exported.status, 0) << exported.err;
  EXPECT_THAT(read_summary(output_).profiles, Each(Field(&ProfileSummary::pid, pid)));
  EXPECT_THAT(profiles_of(read_summary(output_), "shares"), SizeIs(1));
}

TEST_F(HistoryTest, ASessionCanTargetAUnit) {
  const TestUnit unit;
  const Process busy({workload("shares"), "600"}, unit.inside());
  const Process other({workload("shares"), "600"});
  const Ended recorded = daemon_.profctl({"record", "-u", unit.name(), "-d", "1s", "-o", output_});
  ASSERT_EQ(recorded.status, 0) << recorded.err;
  const SessionSummary summary = read_summary(output_);
  ASSERT_THAT(summary.profiles, SizeIs(1));
  EXPECT_EQ(summary.profiles[0].pid, static_cast<std::uint32_t>(busy.pid()));
  const Ended missing = daemon_.profctl({"record", "-u", "profd-test-none", "-d", "1s"});
  EXPECT_EQ(missing.status, 4);
  EXPECT_THAT(missing.err, HasSubstr("profd-test-none.service"));
}

TEST_F(HistoryTest, OthersSeeOnlyTheirOwnProcesses) {
  ::chmod(directory_.path().c_str(), 0777);
  const Process roots({workload("shares"), "600"});
  const Process theirs({workload("reader"), "600"}, as_nobody());
  std::set<std::uint32_t> pids_of_nobody{static_cast<std::uint32_t>(theirs.pid())};
  const auto profctl_of_nobody = [&](const Args& args) {
    Ended ended = daemon_.profctl(args, as_nobody());
    pids_of_nobody.insert(static_cast<std::uint32_t>(ended.pid));
    return ended;
  };
  const auto history_of_nobody = [&] { return parsed(profctl_of_nobody({"history", "--json"})); };
  const auto is_of_nobody = Truly([&](std::uint32_t pid) { return pids_of_nobody.contains(pid); });
  wait_for_windows_with("shares", 2);
  EXPECT_TRUE(eventually([&] {
    const History seen = history_of_nobody();
    return std::ranges::any_of(seen.windows,
                               [](const WindowShares& window) { return window.samples > 0; });
  }));
  for (const WindowShares& window : history_of_nobody().windows) {
    EXPECT_THAT(window.lost, IsEmpty());
    EXPECT_THAT(window.processes, Each(Field(&ProcessShare::pid, is_of_nobody)));
  }
  const auto last = parse_window_shares(profctl_of_nobody({"ps", "--json"}).out);
  ASSERT_TRUE(last);
  EXPECT_THAT(last->processes, Each(Field(&ProcessShare::pid, is_of_nobody)));
  const Ended exported = profctl_of_nobody({"export", "--last", "1h", "-o", output_});
  ASSERT_EQ(exported.status, 0) << exported.err;
  const SessionSummary summary = read_summary(output_);
  EXPECT_THAT(summary.profiles, Each(Field(&ProfileSummary::pid, is_of_nobody)));
  EXPECT_THAT(profiles_of(summary, "reader"), SizeIs(1));
  EXPECT_EQ(summary.ledger.difference(), 0);
  // The symbols of the kernel's image.
  const Ended listed = run({"nm", "--format=just-symbols", output_ / "objects" / "kernel.so"});
  ASSERT_EQ(listed.status, 0) << listed.err;
  std::istringstream symbols(listed.out);
  std::set<std::string> names;
  for (std::string name; std::getline(symbols, name);) names.insert(name);
  EXPECT_THAT(names, UnorderedElementsAre("[kernel]", "_fini"));
}

TEST(HistoryOffTest, WithoutContinuousModeErrorsHaveACauseAndAHint) {
  const Daemon daemon;
  TemporaryDirectory directory;
  for (const Args& args : {Args{"ps"}, {"history"}, {"export", "--last", "1h"}}) {
    const Ended ended = daemon.profctl(args);
    EXPECT_EQ(ended.status, 4) << args[0];
    EXPECT_THAT(ended.err, AllOf(HasSubstr("profctl: "), HasSubstr("hint: "))) << args[0];
    EXPECT_THAT(ended.err, HasSubstr("continuous.enabled = true")) << args[0];
  }
}

}  // namespace
}  // namespace profd::e2e
