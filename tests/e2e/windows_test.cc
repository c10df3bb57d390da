// Continuous mode of a real profd: Go's pprof reads the windows on the disk.

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

#include "daemon/history/window_file.h"
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
  std::unique_ptr<Daemon> start(const std::string& more = "window = \"1s\"\nfrequency = 499\n") {
    std::ofstream(config_) << "[continuous]\nenabled = true\n" << more;
    Daemon::Options options;
    options.arguments = {"--config", config_};
    return std::make_unique<Daemon>(std::move(options));
  }

  // Without the end of the file's name.
  static std::string name_of(const fs::path& file) { return file.stem().stem(); }

  // Sorted by time. Only complete windows have such names.
  static std::vector<std::string> names(const Daemon& daemon) {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(daemon.state() / "windows")) {
      if (entry.path().string().ends_with(kWindowFileEnd) &&
          is_window_name(name_of(entry.path()))) {
        found.push_back(name_of(entry.path()));
      }
    }
    std::ranges::sort(found);
    return found;
  }
  static fs::path path_of(const Daemon& daemon, const std::string& name) {
    return daemon.state() / "windows" / (name + std::string(kWindowFileEnd));
  }
  static Result<WindowFile> open_window(const Daemon& daemon, const std::string& name) {
    return WindowFile::open(daemon.state() / "windows", name);
  }

  static bool wait_for_windows(const Daemon& daemon, std::size_t count) {
    return eventually([&] { return names(daemon).size() >= count; });
  }

  // Waits for a window with that many samples of a process name, and returns the newest.
  static fs::path wait_for_window_of(const Daemon& daemon, const std::string& comm,
                                     std::uint64_t samples) {
    fs::path found;
    EXPECT_TRUE(eventually([&] {
      for (const std::string& name : names(daemon)) {
        const auto window = open_window(daemon, name);
        if (!window) continue;  // removed meanwhile
        const auto profiles = profiles_of(window->summary(), comm);
        if (!profiles.empty() && profiles[0].samples >= samples) found = path_of(daemon, name);
      }
      return !found.empty();
    })) << "no window has "
        << samples << " samples of " << comm;
    return found;
  }

  static void expect_whole(const Daemon& daemon, const std::string& name) {
    const auto window = open_window(daemon, name);
    ASSERT_TRUE(window) << name << ": " << window.error().message;
    const SessionSummary& summary = window->summary();
    EXPECT_EQ(summary.session, name);
    EXPECT_EQ(summary.ledger.difference(), 0) << name;
    EXPECT_GT(summary.seconds, 0) << name;
    const auto tables = window->tables();
    ASSERT_TRUE(tables) << name << ": " << tables.error().message;
    std::int64_t samples = 0;
    for (std::size_t i = 0; i < tables->samples.size(); ++i) samples += tables->values_of(i)[0];
    EXPECT_EQ(static_cast<std::uint64_t>(samples), summary.ledger.written) << name;
  }

  TemporaryDirectory directory_;
  fs::path config_ = directory_.path() / "profd.toml";
};

TEST_F(WindowsTest, AProgramThatIsDeletedKeepsItsNames) {
  const auto daemon = start();
  const fs::path program = directory_.path() / "gone";
  fs::copy_file(workload("shares"), program);
  Process busy({program, "60"});
  (void)wait_for_window_of(*daemon, "gone", 100);
  fs::remove(program);
  std::ofstream(program) << "another program has its place\n";
  const Report report = named_report(wait_for_window_of(*daemon, "gone", 100), "gone");
  ASSERT_TRUE(report.flat.contains("hot_sixty")) << report.text;
  EXPECT_GE(report.cumulative.at("caller"), report.flat.at("hot_sixty")) << report.text;
}

TEST_F(WindowsTest, KernelFunctionsAreNamed) {
  const auto daemon = start();
  Process busy({workload("reader"), "60"});
  const Report report = named_report(wait_for_window_of(*daemon, "reader", 100), "reader");
  EXPECT_GE(report.cumulative.count("vfs_read") + report.cumulative.count("ksys_read"), 1U)
      << report.text;
}

TEST_F(WindowsTest, AWindowIsOneFileAndNothingElseIsKept) {
  const auto daemon = start();
  Process busy({workload("shares"), "60"});
  ASSERT_TRUE(wait_for_windows(*daemon, 3));
  for (const std::string& name : names(*daemon)) expect_whole(*daemon, name);
  EXPECT_FALSE(fs::exists(daemon->state() / "objects"));
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
    const WindowRecord record = open_window(*daemon, name)->record();
    if (before) {
      const auto gap = record.start_monotonic - before->end_monotonic;
      EXPECT_THAT(gap.count(), AllOf(Ge(-5'000'000), Le(5'000'000))) << name;
    }
    before = record;
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

// Its windows are long enough that none ends between the second start and the question after it.
TEST_F(WindowsTest, ARestartKeepsTheWindows) {
  const auto daemon = start("window = \"2s\"\nfrequency = 499\n");
  Process busy({workload("shares"), "60"});
  ASSERT_TRUE(wait_for_windows(*daemon, 2));
  EXPECT_EQ(daemon->stop(SIGTERM).status, 0);
  const std::vector<std::string> before = names(*daemon);
  daemon->start();
  EXPECT_EQ(daemon->status().continuous.windows, before.size());
  ASSERT_TRUE(wait_for_windows(*daemon, before.size() + 2));
  EXPECT_THAT(names(*daemon), IsSupersetOf(before));
  for (const std::string& name : names(*daemon)) expect_whole(*daemon, name);
  const Report report = named_report(wait_for_window_of(*daemon, "shares", 100), "shares");
  EXPECT_TRUE(report.flat.contains("hot_sixty")) << report.text;
}

TEST_F(WindowsTest, AKilledDaemonLeavesOnlyWholeWindows) {
  const auto daemon = start("window = \"1s\"\nfrequency = 99\n");
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
    EXPECT_TRUE(is_window_name(name_of(entry.path())) || name.starts_with(".partial-")) << name;
  }
}

// Each window takes at least a block of 4 KiB.
TEST_F(WindowsTest, TheOldestWindowsAreRemoved) {
  constexpr std::uint64_t kMaxBytes = 1U << 20;
  const auto daemon = start("window = \"1s\"\nfrequency = 999\nmax_bytes = \"1MiB\"\n");
  Process busy({workload("family"), "300", "storm"});
  ASSERT_TRUE(wait_for_windows(*daemon, 1));
  const std::string oldest = names(*daemon).front();
  EXPECT_TRUE(eventually([&] { return !fs::exists(path_of(*daemon, oldest)); }, 290s));
  EXPECT_LE(daemon->status().continuous.disk_bytes, kMaxBytes);
}

TEST_F(WindowsTest, WindowsOfTheFirstReleaseAreRemoved) {
  const auto daemon = start();
  EXPECT_EQ(daemon->stop(SIGTERM).status, 0);
  const fs::path old = daemon->state() / "windows" / "20260102T140500Z";
  fs::create_directories(old);
  std::ofstream(old / "session.json") << "{}";
  fs::create_directories(daemon->state() / "objects");
  std::ofstream(daemon->state() / "objects" / "libc.so.6-93ac61ec.so") << "image";
  daemon->start();
  EXPECT_FALSE(fs::exists(old));
  EXPECT_FALSE(fs::exists(daemon->state() / "objects"));
  EXPECT_EQ(daemon->status().continuous.malformed, 0U);
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
    for (const auto& profile : profiles_of(open_window(*daemon, name)->summary(), "shares")) {
      if (profile.pid == of_session[0].pid) in_windows += profile.samples;
    }
  }
  // Each has events of its own, so the ticks are not the same; both are those of 3 s of CPU time.
  EXPECT_NEAR(static_cast<double>(in_windows), 3 * 499, 150);
  EXPECT_NEAR(static_cast<double>(of_session[0].samples), 3 * 499, 150);
}

}  // namespace
}  // namespace profd::e2e
