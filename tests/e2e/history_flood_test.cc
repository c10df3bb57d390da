// One user's flood of names and stacks against a history that is nearly full: the windows of others
// stay. FLOOD_SECONDS in the environment makes it longer (make attack); the windows then last as
// long as by default, since what root itself has in hundreds of short ones would fill the history.

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>

#include <gmock/gmock.h>

#include "daemon/history/window_file.h"
#include "tests/daemon/history/named_windows.h"
#include "tests/e2e/harness.h"

namespace profd::e2e {
namespace {

namespace fs = std::filesystem;
using ::testing::IsSupersetOf;
using std::chrono_literals::operator""s;
using std::chrono_literals::operator""min;
using std::chrono_literals::operator""h;

// Of 64 MiB: the windows of yesterday and the file of their hour take 57, and a user's eighth is 8.
constexpr int kWindowsOfYesterday = 35;
constexpr std::size_t kNamesOfWindow = 1024;

std::chrono::seconds flood_time() {
  const char* seconds = std::getenv("FLOOD_SECONDS");
  return std::chrono::seconds(seconds == nullptr ? 25 : std::atoi(seconds));
}

std::chrono::seconds window_time() { return flood_time() < 2min ? 1s : 60s; }

class HistoryFloodTest : public ::testing::Test {
 protected:
  HistoryFloodTest() {
    std::ofstream(config_) << "[continuous]\nenabled = true\nfrequency = 199\nwindow = \""
                           << window_time().count() << "s\"\nmax_bytes = \"64MiB\"\n";
    Daemon::Options options;
    options.arguments = {"--config", config_};
    daemon_ = std::make_unique<Daemon>(std::move(options));
    EXPECT_EQ(daemon_->stop(SIGTERM).status, 0);
    for (int i = 0; i < kWindowsOfYesterday; ++i) yesterday_.insert(add_window(i));
    daemon_->start();
    EXPECT_TRUE(eventually([this] { return daemon_->status().continuous.hours == 1; }, 120s));
  }

  // Of root, and 1 MiB of names that can't be packed.
  std::string add_window(int minute) {
    const auto hour = std::chrono::floor<std::chrono::hours>(std::chrono::system_clock::now());
    test::NamedProcess process{.pid = 8, .comm = "calm"};
    for (std::size_t i = 0; i < kNamesOfWindow; ++i) {
      std::string name(1024, ' ');
      for (char& letter : name) letter = static_cast<char>('!' + random_() % 90);
      process.stacks.push_back({{std::move(name)}, 1});
    }
    const auto start = std::chrono::time_point_cast<std::chrono::system_clock::duration>(hour);
    return test::NamedWindow(start - 24h + minute * 1min).add(process).write(windows());
  }

  [[nodiscard]] fs::path windows() const { return daemon_->state() / "windows"; }

  std::set<std::string> stored() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(windows())) {
      names.insert(entry.path().stem().stem());
    }
    return names;
  }

  // Of all windows since yesterday's, of one process name.
  std::uint64_t written_samples_of(const std::string& comm) const {
    std::uint64_t samples = 0;
    for (const std::string& name : stored()) {
      const auto window = WindowFile::open(windows(), name);
      if (!window) continue;
      for (const ProfileSummary& profile : profiles_of(window->summary(), comm)) {
        samples += profile.samples;
      }
    }
    return samples;
  }

  TemporaryDirectory directory_;
  fs::path config_ = directory_.path() / "profd.toml";
  std::minstd_rand random_{1};
  std::set<std::string> yesterday_;
  std::unique_ptr<Daemon> daemon_;
};

TEST_F(HistoryFloodTest, TheWindowsOfOthersAreStillThere) {
  const auto lasts = flood_time();
  Process::Options as_user;
  as_user.uid = kSomebody;
  Process flood({workload("name_flood"), std::to_string(lasts.count()), "2"}, as_user);
  EXPECT_EQ(flood.wait(lasts + 60s).status, 0);
  // The window of its last second.
  const std::size_t windows_now = stored().size();
  EXPECT_TRUE(
      eventually([&] { return stored().size() >= windows_now + 2; }, 3 * window_time() + 30s));
  EXPECT_THAT(stored(), IsSupersetOf(yesterday_));
  const StatusInfo status = daemon_->status();
  EXPECT_GT(status.continuous.over_share_samples, 0U);
  const auto user = std::ranges::find(status.users, kSomebody, &StatusInfo::User::uid);
  ASSERT_NE(user, status.users.end());
  EXPECT_GT(user->refused.at("continuous.over_share_samples"), 0U);
  EXPECT_GT(written_samples_of("name_flood"), 0U);
  EXPECT_LE(status.continuous.disk_bytes, std::uint64_t{64} << 20);
  std::printf("%zu windows since, %zu KiB on the disk, %zu MiB resident, %llu samples over share\n",
              stored().size() - yesterday_.size(),
              static_cast<std::size_t>(status.continuous.disk_bytes >> 10),
              static_cast<std::size_t>(status.rss_bytes >> 20),
              static_cast<unsigned long long>(status.continuous.over_share_samples));
}

}  // namespace
}  // namespace profd::e2e
