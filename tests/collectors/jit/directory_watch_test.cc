#include "collectors/jit/directory_watch.h"

#include <poll.h>
#include <sys/fsuid.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/collectors/jit/runtime.h"

namespace profd::test {
namespace {

class DirectoryWatchTest : public testing::Test {
 protected:
  DirectoryWatchTest() { stats_.users = &users_; }

  // Each is an event of 32 bytes. No JIT source has these names.
  void rename_files(std::size_t times) {
    write_file(directory_ / "first", "");
    for (std::size_t i = 0; i < times; ++i) {
      const bool is_even = i % 2 == 0;
      std::filesystem::rename(directory_ / (is_even ? "first" : "second"),
                              directory_ / (is_even ? "second" : "first"));
    }
  }
  void write_as(uid_t uid, const std::string& name) {
    std::filesystem::permissions(directory_.path(), std::filesystem::perms::all);
    ::setfsuid(uid);
    write_file(directory_ / name, "");
    ::setfsuid(0);
  }
  [[nodiscard]] bool is_readable() const {
    pollfd readable{.fd = watch_->fd(), .events = POLLIN, .revents = 0};
    return ::poll(&readable, 1, 0) == 1;
  }
  std::vector<JitFileSeen> take_all() {
    std::vector<JitFileSeen> appeared;
    for (int i = 0; i < 1000 && (is_readable() || watch_->is_scanning()); ++i) {
      std::ranges::copy(watch_->take(stats_), std::back_inserter(appeared));
    }
    return appeared;
  }

  PrivateDirectory directory_;
  PrivateDirectory settings_;
  std::unique_ptr<DirectoryWatch> watch_ =
      DirectoryWatch::open({directory_.path()}, open_jit_file, owners_with_subordinates(settings_))
          .value();
  UserRefusals users_{owners_with_subordinates(settings_)};
  JitStats stats_;
};

TEST_F(DirectoryWatchTest, ReportsFilesByNameAndOwner) {
  write_file(directory_ / "nothing of ours", "");
  write_file(directory_ / "jit-12.dump", "");
  std::filesystem::permissions(directory_.path(), std::filesystem::perms::all);
  ::setfsuid(kOther);  // the owner must be set at the creation, which is reported
  write_file(directory_ / "perf-13.map", "");
  ::setfsuid(0);
  const auto appeared = watch_->take(stats_);
  ASSERT_EQ(appeared.size(), 2U);
  EXPECT_EQ(appeared[0].pid, 12U);
  EXPECT_EQ(appeared[0].owner, 0U);
  EXPECT_EQ(appeared[0].kind, JitFileKind::kJitDump);
  EXPECT_EQ(appeared[1].pid, 13U);
  EXPECT_EQ(appeared[1].owner, kOther);
  EXPECT_EQ(appeared[1].kind, JitFileKind::kPerfMap);
}

// All within one second, on a host that is not stopped meanwhile.
TEST_F(DirectoryWatchTest, OneUsersFloodLeavesOpensForOthers) {
  const auto make_as = [this](uid_t uid, int first, std::size_t files) {
    ::setfsuid(uid);
    for (std::size_t i = 0; i < files; ++i) {
      write_file(directory_ / ("jit-" + std::to_string(first + static_cast<int>(i)) + ".dump"), "");
    }
    ::setfsuid(0);
  };
  std::filesystem::permissions(directory_.path(), std::filesystem::perms::all);
  make_as(kOther, 1000, DirectoryWatch::kMaxOpens);
  make_as(kSubordinate, 3000, DirectoryWatch::kMaxOpens);
  make_as(kOther + 1, 5000, 1);
  make_as(0, 6000, 1);
  const auto appeared = watch_->take(stats_);
  const auto owned_by = [&](uid_t uid) {
    return std::ranges::count(appeared, uid, &JitFileSeen::owner);
  };
  EXPECT_EQ(owned_by(kOther), DirectoryWatch::kMaxOpensOfOwner);
  EXPECT_EQ(owned_by(kOther + 1), 1);
  EXPECT_EQ(owned_by(0), 1);
  EXPECT_EQ(stats_.refused[static_cast<std::size_t>(JitRefusal::kOverShare)],
            2 * DirectoryWatch::kMaxOpens - DirectoryWatch::kMaxOpensOfOwner);
  ASSERT_EQ(users_.users().size(), 1U);
  EXPECT_EQ(users_.users()[0].uid, kOther);
  EXPECT_EQ(users_.users()[0].refused.at("jit.refused.over_share"),
            2 * DirectoryWatch::kMaxOpens - DirectoryWatch::kMaxOpensOfOwner);
}

TEST_F(DirectoryWatchTest, OneCallTakesABoundedNumberOfEvents) {
  rename_files(DirectoryWatch::kMaxEventBytes / 32 * 3 / 2);
  write_as(kOther, "perf-13.map");
  EXPECT_TRUE(watch_->take(stats_).empty());
  EXPECT_TRUE(is_readable());
  const auto appeared = watch_->take(stats_);
  ASSERT_EQ(appeared.size(), 1U);
  EXPECT_EQ(appeared[0].owner, kOther);
  EXPECT_FALSE(is_readable());
}

TEST_F(DirectoryWatchTest, FindsFilesWhoseEventsTheKernelHadNoRoomFor) {
  write_file(directory_ / "perf-12.map", "");
  ASSERT_EQ(watch_->take(stats_).size(), 1U);
  for (std::size_t i = 0; i < DirectoryWatch::kMaxScanned; ++i) {
    write_file(directory_ / ("other-" + std::to_string(i)), "");
  }
  std::size_t max_events = 0;
  std::ifstream("/proc/sys/fs/inotify/max_queued_events") >> max_events;
  ASSERT_GT(max_events, 0U);
  rename_files(max_events);
  write_as(kOther, "perf-13.map");
  append_file(directory_ / "perf-12.map", "changes it");
  const auto appeared = take_all();
  ASSERT_EQ(appeared.size(), 1U);
  EXPECT_EQ(appeared[0].pid, 13U);
  EXPECT_EQ(appeared[0].owner, kOther);
  EXPECT_EQ(watch_->held(), 2U);
  EXPECT_FALSE(watch_->is_scanning());
}

// A user can have a process with the pid of a process of root's, in a PID namespace of his own.
TEST_F(DirectoryWatchTest, APrivateFileOfRootIsForRootsProcessesOnly) {
  write_file(directory_ / "perf-12.map", "");
  write_file(directory_ / "perf-13.map", "");
  std::filesystem::permissions(directory_ / "perf-12.map", std::filesystem::perms::owner_read);
  ASSERT_EQ(watch_->take(stats_).size(), 2U);
  EXPECT_EQ(watch_->find(12, 0).size(), 1U);
  EXPECT_TRUE(watch_->find(12, kOther).empty());
  EXPECT_EQ(watch_->find(13, kOther).size(), 1U);
}

TEST_F(DirectoryWatchTest, HoldsUnlinkedFilesForSomeMinutes) {
  write_file(directory_ / "jit-12.dump", "");
  write_file(directory_ / "jit-13.dump", "");
  ASSERT_EQ(watch_->take(stats_).size(), 2U);
  std::filesystem::remove(directory_ / "jit-12.dump");
  const auto now = DirectoryWatch::Clock::now();
  watch_->release_unlinked(now);
  watch_->release_unlinked(now + DirectoryWatch::kMaxUnlinked - std::chrono::seconds(1));
  EXPECT_EQ(watch_->held(), 2U);
  watch_->release_unlinked(now + DirectoryWatch::kMaxUnlinked);
  EXPECT_EQ(watch_->held(), 1U);
  EXPECT_TRUE(watch_->find(12, 0).empty());
  EXPECT_EQ(watch_->find(13, 0).size(), 1U);
}

TEST(JitScan, RootsFileOfASetUserIdProgramTakesTheShareOfItsUser) {
  PrivateDirectory directory;
  const Runtime runtime(
      [&] { return ::chdir(directory.path().c_str()) == 0 && ::setresuid(kOther, 0, 0) == 0; });
  ASSERT_TRUE(runtime.is_ready());
  write_file(directory / ("jit-" + std::to_string(runtime.pid()) + ".dump"), "");
  const JitScan scan = scan_for_jit_files(runtime.key());
  ASSERT_EQ(scan.files.size(), 1U);
  EXPECT_EQ(scan.files[0]->id.owner, kOther);
}

}  // namespace
}  // namespace profd::test
