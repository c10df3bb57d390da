// Continuous mode of a real profd: both pprofs read the windows on the disk.

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "daemon/history/files.h"
#include "tests/e2e/harness.h"

namespace profd::e2e {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Ge;
using ::testing::IsSupersetOf;
using ::testing::Le;
using ::testing::SizeIs;

using std::chrono_literals::operator""s;

class WindowsTest : public ::testing::Test {
 protected:
  // Starts a profd with more lines in its configuration.
  std::unique_ptr<Daemon> start(const std::string& more = "window = \"2s\"\nfrequency = 499\n") {
    std::ofstream(config_) << "[continuous]\nenabled = true\n" << more;
    Daemon::Options options;
    options.arguments = {"--config", config_};
    return std::make_unique<Daemon>(std::move(options));
  }

  // Sorted by time. Only complete windows have such names.
  static std::vector<std::string> names(const Daemon& daemon) {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(daemon.state() / "windows")) {
      const std::string name = entry.path().filename();
      if (is_window_name(name)) found.push_back(name);
    }
    std::ranges::sort(found);
    return found;
  }
  static fs::path path_of(const Daemon& daemon, const std::string& name) {
    return daemon.state() / "windows" / name;
  }
  static std::set<std::string> objects(const Daemon& daemon) {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(daemon.state() / "objects")) {
      found.insert(entry.path().filename());
    }
    return found;
  }

  static bool wait_for_windows(const Daemon& daemon, std::size_t count) {
    return eventually([&] { return names(daemon).size() >= count; });
  }

  // Waits for a window with that many samples of a process name, and returns its newest profile.
  static fs::path wait_for_profile(const Daemon& daemon, const std::string& comm,
                                   std::uint64_t samples) {
    fs::path found;
    EXPECT_TRUE(eventually([&] {
      for (const std::string& name : names(daemon)) {
        const auto profiles = profiles_of(read_summary(path_of(daemon, name)), comm);
        if (profiles.empty() || profiles[0].samples < samples) continue;
        found = path_of(daemon, name) / profiles[0].path;
      }
      return !found.empty();
    })) << "no window has "
        << samples << " samples of " << comm;
    return found;
  }

  static void expect_whole(const Daemon& daemon, const std::string& name) {
    const fs::path path = path_of(daemon, name);
    const SessionSummary summary = read_summary(path);
    EXPECT_EQ(summary.session, name);
    EXPECT_EQ(summary.ledger.difference(), 0) << name;
    EXPECT_GT(summary.seconds, 0) << name;
    const auto files = WindowFiles::open(daemon.state() / "windows", name);
    ASSERT_TRUE(files) << files.error().message;
    const auto record = files->read_record();
    ASSERT_TRUE(record) << record.error().message;
    ASSERT_EQ(record->profiles.size(), summary.profiles.size()) << name;
    for (const WindowProfile& profile : record->profiles) {
      EXPECT_TRUE(files->read_profile(profile.path)) << name << "/" << profile.path;
    }
    EXPECT_THAT(objects(daemon), IsSupersetOf(record->objects)) << name;
  }

  TemporaryDirectory directory_;
  fs::path config_ = directory_.path() / "profd.toml";
};

TEST_F(WindowsTest, BothReadersNameAProgramThatIsDeleted) {
  const auto daemon = start();
  const fs::path program = directory_.path() / "gone";
  fs::copy_file(workload("shares"), program);
  Process busy({program, "60"});
  (void)wait_for_profile(*daemon, "gone", 100);
  fs::remove(program);
  std::ofstream(program) << "another program has its place\n";
  const fs::path profile = wait_for_profile(*daemon, "gone", 100);
  for (const Report& report : {go_pprof(profile), perl_pprof("/bin/true", profile)}) {
    ASSERT_TRUE(report.flat.contains("hot_sixty")) << report.text;
    EXPECT_NEAR(report.flat.at("hot_sixty"), 60, 15) << report.text;
    EXPECT_GE(report.cumulative.at("caller"), 90) << report.text;
  }
}

TEST_F(WindowsTest, KernelFunctionsAreNamed) {
  const auto daemon = start();
  Process busy({workload("reader"), "60"});
  const fs::path profile = wait_for_profile(*daemon, "reader", 100);
  for (const Report& report : {go_pprof(profile), perl_pprof("/bin/true", profile)}) {
    EXPECT_GE(report.cumulative.count("vfs_read") + report.cumulative.count("ksys_read"), 1U)
        << report.text;
  }
}

TEST_F(WindowsTest, WindowsShareTheirObjects) {
  const auto daemon = start();
  Process busy({workload("shares"), "60"});
  ASSERT_TRUE(wait_for_windows(*daemon, 3));
  std::size_t images = 0;
  for (const std::string& object : objects(*daemon))
    images += object.starts_with("shares-") ? 1 : 0;
  EXPECT_EQ(images, 1U);
  for (const std::string& name : names(*daemon)) expect_whole(*daemon, name);
  const StatusInfo::Continuous status = daemon->status().continuous;
  EXPECT_TRUE(status.enabled);
  EXPECT_GE(status.windows, 3U);
  EXPECT_FALSE(status.failed.contains("io"));
}

TEST_F(WindowsTest, EachWindowHasItsOwnLedgerAndNoTimeIsBetweenTwo) {
  const auto daemon = start("window = \"2s\"\nfrequency = 999\n");
  Process busy({workload("shares"), "60", "2"});
  ASSERT_TRUE(wait_for_windows(*daemon, 4));
  EXPECT_EQ(daemon->stop(SIGTERM).status, 0);
  std::optional<WindowRecord> before;
  for (const std::string& name : names(*daemon)) {
    expect_whole(*daemon, name);
    const auto record = WindowFiles::open(daemon->state() / "windows", name)->read_record();
    if (before) {
      const auto gap = record->start_monotonic - before->end_monotonic;
      EXPECT_THAT(gap.count(), AllOf(Ge(-5'000'000), Le(5'000'000))) << name;
    }
    before = *record;
  }
}

TEST_F(WindowsTest, TheCurrentWindowIsWrittenOnSigterm) {
  const auto daemon = start("window = \"2s\"\nfrequency = 99\n");
  Process busy({workload("shares"), "60"});
  ASSERT_TRUE(wait_for_windows(*daemon, 1));
  const std::size_t before = names(*daemon).size();
  EXPECT_EQ(daemon->stop(SIGTERM).status, 0);
  EXPECT_GE(names(*daemon).size(), before + 1);
  for (const std::string& name : names(*daemon)) expect_whole(*daemon, name);
}

TEST_F(WindowsTest, ARestartKeepsTheWindowsAndTheirObjects) {
  const auto daemon = start();
  Process busy({workload("shares"), "60"});
  ASSERT_TRUE(wait_for_windows(*daemon, 2));
  EXPECT_EQ(daemon->stop(SIGTERM).status, 0);
  const std::vector<std::string> before = names(*daemon);
  daemon->start();
  EXPECT_EQ(daemon->status().continuous.windows, before.size());
  ASSERT_TRUE(wait_for_windows(*daemon, before.size() + 2));
  EXPECT_THAT(names(*daemon), IsSupersetOf(before));
  for (const std::string& name : names(*daemon)) expect_whole(*daemon, name);
  const Report report = go_pprof(wait_for_profile(*daemon, "shares", 100));
  EXPECT_TRUE(report.flat.contains("hot_sixty")) << report.text;
}

TEST_F(WindowsTest, AKilledDaemonLeavesOnlyWholeWindows) {
  const auto daemon = start("window = \"2s\"\nfrequency = 99\n");
  Process busy({workload("family"), "60", "storm"});
  for (int round = 0; round < 4; ++round) {
    const std::size_t before = names(*daemon).size();
    ASSERT_TRUE(wait_for_windows(*daemon, before + 1));
    daemon->stop(SIGKILL);
    daemon->start();
    for (const std::string& name : names(*daemon)) expect_whole(*daemon, name);
  }
  for (const auto& entry : fs::directory_iterator(daemon->state() / "windows")) {
    const std::string name = entry.path().filename();
    EXPECT_TRUE(is_window_name(name) || name.starts_with(".partial-")) << name;
  }
}

TEST_F(WindowsTest, TheOldestWindowsAreRemovedWithTheirObjects) {
  const auto daemon = start("window = \"1s\"\nfrequency = 99\nmax_bytes = \"1MiB\"\n");
  const fs::path program = directory_.path() / "passing";
  fs::copy_file(workload("shares"), program);
  {
    Process busy({program, "60"});
    (void)wait_for_profile(*daemon, "passing", 20);
  }
  const std::string oldest = names(*daemon).front();
  EXPECT_TRUE(eventually([&] { return !fs::exists(path_of(*daemon, oldest)); }, 120s));
  const auto is_gone = [&] {
    return std::ranges::none_of(
        objects(*daemon), [](const std::string& object) { return object.starts_with("passing-"); });
  };
  EXPECT_TRUE(eventually(is_gone, 120s));
  EXPECT_LE(daemon->status().continuous.disk_bytes, 1U << 20);
}

TEST_F(WindowsTest, ASessionSamplesBesideTheWindows) {
  const auto daemon = start("window = \"2s\"\nfrequency = 499\n");
  const fs::path output = directory_.path() / "out";
  const Ended recorded =
      daemon->profctl({"record", "-F", "499", "-o", output, "--", workload("shares"), "3"});
  ASSERT_EQ(recorded.status, 0) << recorded.err;
  const SessionSummary session = read_summary(output);
  EXPECT_EQ(session.ledger.difference(), 0);
  EXPECT_EQ(daemon->stop(SIGTERM).status, 0);
  const auto of_session = profiles_of(session, "shares");
  ASSERT_THAT(of_session, SizeIs(1));
  std::uint64_t in_windows = 0;
  for (const std::string& name : names(*daemon)) {
    expect_whole(*daemon, name);
    for (const auto& profile : profiles_of(read_summary(path_of(*daemon, name)), "shares")) {
      if (profile.pid == of_session[0].pid) in_windows += profile.samples;
    }
  }
  // The same ticks, except for those around its exec and its end.
  EXPECT_NEAR(static_cast<double>(in_windows), static_cast<double>(of_session[0].samples), 5);
}

}  // namespace
}  // namespace profd::e2e
