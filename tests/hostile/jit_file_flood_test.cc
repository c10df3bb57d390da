// A user who fills a directory that is watched for JIT files with more of them than anybody needs:
// others' files are read, root is answered, and nobody's samples are lost.

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>

#include <gmock/gmock.h>

#include "tests/e2e/harness.h"
#include "tests/hostile/attack.h"

namespace profd::e2e {
namespace {

namespace fs = std::filesystem;
using std::chrono_literals::operator""s;

constexpr std::uint64_t kFilesOfUser = 64;  // that the daemon holds open
constexpr std::uint64_t kOpensOfUser = 32;  // in a second; what it opens is not refused

// Perf maps and files that are nearly jitdumps, of processes that are not there.
[[noreturn]] void write_files(const fs::path& directory, int count) {
  constexpr int kNoPid = 5'000'000;
  if (::setgid(kSomebody) != 0 || ::setuid(kSomebody) != 0) ::_exit(1);
  for (int i = 0; i < count; ++i) {
    const std::string pid = std::to_string(kNoPid + i);
    const bool is_map = i % 2 == 0;
    const fs::path path = directory / (is_map ? "perf-" + pid + ".map" : "jit-" + pid + ".dump");
    const std::string_view content = is_map ? "1000 10 name\n" : "DTiJ and no header";
    const int fd = ::open(path.c_str(), O_CREAT | O_WRONLY | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0 || ::write(fd, content.data(), content.size()) < 0 || ::close(fd) != 0) ::_exit(2);
  }
  ::_exit(0);
}

class HostileJitFilesTest : public ::testing::Test {
 protected:
  HostileJitFilesTest() {
    fs::permissions(directory_.path(), fs::perms(01777));
    const fs::path config = directory_.path() / "profd.toml";
    std::ofstream(config) << "[jit]\ndirectories = [\"" << directory_.path().native() << "\"]\n";
    Daemon::Options options;
    options.arguments = {"--config", config};
    daemon_ = std::make_unique<Daemon>(std::move(options));
  }

  std::uint64_t files_refused() { return daemon_->status().jit.refused["over_share"]; }

  // How many files of one user the daemon may have opened since `began`; of the 10,000, never so
  // many that none would have to be refused.
  static std::uint64_t most_opened(std::chrono::steady_clock::time_point began) {
    constexpr auto kPartsOfSeconds = 2s;  // the first and the last one
    constexpr std::chrono::steady_clock::duration kLongest = 120s;
    const auto time = std::chrono::steady_clock::now() - began + kPartsOfSeconds;
    const auto counted = std::chrono::ceil<std::chrono::seconds>(std::min(time, kLongest));
    return kOpensOfUser * static_cast<std::uint64_t>(counted.count());
  }

  // Whether the daemon holds the file open.
  bool is_open(const fs::path& path) {
    const std::string pid = std::to_string(daemon_->process().pid());
    std::error_code closed_meanwhile;
    const auto held = fs::directory_iterator("/proc/" + pid + "/fd");
    return std::any_of(begin(held), end(held), [&](const fs::directory_entry& entry) {
      return fs::read_symlink(entry.path(), closed_meanwhile) == path;
    });
  }

  TemporaryDirectory directory_;
  std::unique_ptr<Daemon> daemon_;
  Process busy_{{workload("shares"), "600"}};
};

TEST_F(HostileJitFilesTest, TakeNothingFromOthers) {
  const Ended started = daemon_->profctl({"start", "-a", "-F", "499"});
  ASSERT_EQ(started.status, 0) << started.err;
  const int count = attack_count(10'000, 100'000);
  const auto began = std::chrono::steady_clock::now();
  const pid_t writer = ::fork();
  ASSERT_GE(writer, 0);
  if (writer == 0) write_files(directory_.path(), count);
  int status = 0;
  while (::waitpid(writer, &status, WNOHANG) == 0) ask_as_root(*daemon_);
  ASSERT_EQ(status, 0);

  EXPECT_TRUE(eventually(
      [&] {
        ask_as_root(*daemon_);
        return files_refused() + most_opened(began) >= static_cast<std::uint64_t>(count);
      },
      120s))
      << files_refused() << " of " << count;
  const StatusInfo after = daemon_->status();
  EXPECT_LE(after.jit.files, kFilesOfUser);
  const auto user = std::ranges::find(after.users, kSomebody, &StatusInfo::User::uid);
  ASSERT_NE(user, after.users.end());
  EXPECT_GE(user->refused.at("jit.refused.over_share") + most_opened(began),
            static_cast<std::uint64_t>(count));

  const fs::path map = directory_.path() / ("perf-" + std::to_string(busy_.pid()) + ".map");
  std::ofstream(map) << "7000 10 of_root\n";
  EXPECT_TRUE(eventually([&] { return is_open(map); }));

  const fs::path output = directory_.path() / "out";
  const Ended stopped = daemon_->profctl({"stop", first_line(started.out), "-o", output});
  ASSERT_EQ(stopped.status, 0) << stopped.err;
  const SessionSummary summary = read_summary(output);
  EXPECT_EQ(summary.ledger.difference(), 0);
  EXPECT_EQ(summary.ledger.written, summary.ledger.taken);
}

}  // namespace
}  // namespace profd::e2e
