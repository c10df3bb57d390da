// How many files processes may have opened in a second.

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <future>
#include <string>
#include <string_view>

#include "collectors/files/open_mapped_file.h"
#include "tests/collectors/files/mapped_files_fixture.h"

namespace profd {
namespace {

using test::MappedFilesTest;
using test::opened_by;

// A process of a user that waits until it is ended.
class ProcessOfUser {
 public:
  explicit ProcessOfUser(uid_t uid) {
    std::array<int, 2> ready{};
    EXPECT_EQ(::pipe2(ready.data(), O_CLOEXEC), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      const bool is_user = ::setresuid(uid, uid, uid) == 0;
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (!is_user || ::write(ready[1], "", 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    ::close(ready[1]);
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
  }
  ProcessOfUser(const ProcessOfUser&) = delete;
  ProcessOfUser& operator=(const ProcessOfUser&) = delete;
  ~ProcessOfUser() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  [[nodiscard]] std::uint32_t tgid() const { return static_cast<std::uint32_t>(pid_); }

 private:
  pid_t pid_ = -1;
};

// New files of processes within one second. Nothing is opened; each open has a key of its own.
class NewFilesTest : public MappedFilesTest {
 protected:
  static constexpr std::uint32_t kRootProcess = 4'000'000;  // one that has ended counts as root's
  static constexpr uid_t kUser = 54'321;

  std::string error_of_open(std::uint32_t tgid) {
    view_.process.tgid = tgid;
    ++view_.file.generation;
    return opened_by(quick_files_, view_, now_)->error;
  }
  // How many files the process may open now, up to `limit`.
  std::size_t opens_of(std::uint32_t tgid, std::size_t limit = MappedFiles::kMaxNew) {
    std::size_t count = 0;
    while (count < limit && error_of_open(tgid) != kTooManyNew) ++count;
    return count;
  }

  static constexpr std::string_view kTooManyNew = "too many new files within a second";
  MappedFiles::Clock::time_point now_ = MappedFiles::Clock::now();
  MappedFiles quick_files_{
      1024, [](const MappingPlace& place) { return unopened(place, "in the test"); }};
};

TEST_F(NewFilesTest, AProcessMayOpenALimitedNumberInASecondAndOthersMayThen) {
  EXPECT_EQ(opens_of(kRootProcess), MappedFiles::kMaxNewOfProcess);
  EXPECT_EQ(quick_files_.size(), MappedFiles::kMaxNewOfProcess);
  EXPECT_NE(error_of_open(kRootProcess + 1), kTooManyNew);
  view_.file.generation = 100;  // known
  view_.process.tgid = kRootProcess;
  EXPECT_NE(opened_by(quick_files_, view_, now_)->error, kTooManyNew);
  view_.file.generation = 1'000'000;
  now_ += std::chrono::seconds(1);
  EXPECT_NE(error_of_open(kRootProcess), kTooManyNew);
}

TEST_F(NewFilesTest, TheProcessesOfAUserShareAnEighth) {
  const ProcessOfUser first(kUser);
  const ProcessOfUser second(kUser);
  const ProcessOfUser of_other(kUser + 1);
  EXPECT_EQ(opens_of(first.tgid(), 300), 300U);
  EXPECT_EQ(opens_of(second.tgid()), MappedFiles::kMaxNewOfUser - 300);
  EXPECT_EQ(error_of_open(first.tgid()), kTooManyNew);
  EXPECT_NE(error_of_open(of_other.tgid()), kTooManyNew);
}

// A process that has ended, and one that is not dumpable, look like one of root.
TEST_F(NewFilesTest, AProcessIsOfTheUserOfWhomItWasSampled) {
  for (std::uint32_t i = 0; i < 2; ++i) {
    quick_files_.add_process({.tgid = kRootProcess + i, .exec_id = 0, .start_ns = 0}, kUser);
  }
  EXPECT_EQ(opens_of(kRootProcess, 300), 300U);
  EXPECT_EQ(opens_of(kRootProcess + 1), MappedFiles::kMaxNewOfUser - 300);
  EXPECT_EQ(opens_of(kRootProcess + 2, 10), 10U);
}

TEST_F(NewFilesTest, UsersShareHalfAndRootHasTheRest) {
  std::size_t opened = 0;
  for (uid_t user = kUser; user < kUser + 6; ++user) {
    opened += opens_of(ProcessOfUser(user).tgid());
  }
  EXPECT_EQ(opened, MappedFiles::kMaxNewOfUsers);
  for (std::uint32_t i = 0; i < 10; ++i) opened += opens_of(kRootProcess + i);
  EXPECT_EQ(opened, MappedFiles::kMaxNew);
}

TEST_F(NewFilesTest, AnOpenThatTheQueueRefusesIsNotCounted) {
  const ProcessOfUser process(kUser);
  view_.process.tgid = process.tgid();
  std::promise<void> gate;
  MappedFiles files(1024, [gate = gate.get_future().share()](const MappingPlace& place) {
    gate.wait();
    return unopened(place, "in the test");
  });
  const auto refused_of = [&](std::size_t count) {
    std::size_t refused = 0;
    for (std::size_t i = 0; i < count; ++i) {
      ++view_.file.generation;
      const auto file = files.find_or_open(view_, now_);
      refused += file->error == "too many files wait to be opened" ? 1 : 0;
    }
    return refused;
  };
  EXPECT_EQ(refused_of(MappedFiles::kMaxNewOfUser), 0U);
  now_ += std::chrono::seconds(1);
  EXPECT_GE(refused_of(2 * MappedFiles::kMaxNewOfUser), 2 * MappedFiles::kMaxNewOfUser - 1);
  gate.set_value();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (files.ended() < files.submitted() && std::chrono::steady_clock::now() < end) {
    pollfd ready{.fd = files.wake_fd(), .events = POLLIN, .revents = 0};
    ::poll(&ready, 1, 5);
    files.take_opened();
  }
  ++view_.file.generation;
  EXPECT_TRUE(files.find_or_open(view_, now_)->is_opening);
}

}  // namespace
}  // namespace profd
