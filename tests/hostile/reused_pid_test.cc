// A user who can choose the pids of new processes (CAP_CHECKPOINT_RESTORE, a PID namespace of his
// own) gives one pid to one program after the other: each has a profile of its own.

#include <linux/sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "tests/e2e/lifecycle_fixture.h"

namespace profd::e2e {
namespace {

using ::testing::Contains;
using ::testing::Key;
using ::testing::Not;
using ::testing::SizeIs;

constexpr int kRounds = 4;

// A program, and functions that it has and the other one has not.
struct Program {
  std::string comm;
  Args command;
  std::string busiest;
};

class ReusedPidTest : public LifecycleTest {
 protected:
  const Program shares_{"shares", {workload("shares"), "0.3"}, "hot_sixty"};
  const Program depth_{"depth", {workload("depth"), "0.3", "5"}, "bottom"};

  // Runs it to its end. `pid`: that of the process, or 0 for any. Returns the pid.
  static pid_t run_as(pid_t pid, const Program& program) {
    clone_args args{};
    args.exit_signal = SIGCHLD;
    if (pid != 0) {
      args.set_tid = reinterpret_cast<std::uint64_t>(&pid);
      args.set_tid_size = 1;
    }
    const auto child = static_cast<pid_t>(::syscall(SYS_clone3, &args, sizeof args));
    if (child == 0) {
      const Args& words = program.command;
      std::vector<char*> argv;
      for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
      argv.push_back(nullptr);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    if (child < 0) throw std::runtime_error(std::string("clone3: ") + std::strerror(errno));
    int status = 0;
    if (::waitpid(child, &status, 0) != child || status != 0) {
      throw std::runtime_error(program.comm + " ended with " + std::to_string(status));
    }
    return child;
  }
};

TEST_F(ReusedPidTest, EachProgramOfOnePidHasItsOwnProfile) {
  const std::string id = start({"-a"});
  const pid_t pid = run_as(0, shares_);
  for (int i = 1; i < kRounds; ++i) ASSERT_EQ(run_as(pid, i % 2 == 0 ? shares_ : depth_), pid);
  ASSERT_EQ(daemon_.profctl({"stop", id, "-o", output_}).status, 0);
  const SessionSummary summary = read_summary(output_);
  EXPECT_EQ(summary.ledger.difference(), 0);
  for (const auto& [mine, other] : {std::pair{shares_, depth_}, std::pair{depth_, shares_}}) {
    std::vector<ProfileSummary> profiles = profiles_of(summary, mine.comm);
    std::erase_if(profiles, [&](const ProfileSummary& profile) {
      return profile.pid != static_cast<std::uint32_t>(pid);
    });
    ASSERT_THAT(profiles, SizeIs(kRounds / 2)) << mine.comm;
    for (const ProfileSummary& profile : profiles) {
      EXPECT_GE(profile.samples, 10U) << "0.3 s at 499 Hz, on a busy machine";
      const Report report = go_pprof(output_ / profile.path);
      EXPECT_THAT(report.cumulative, Contains(Key(mine.busiest))) << report.text;
      EXPECT_THAT(report.cumulative, Not(Contains(Key(other.busiest)))) << report.text;
    }
  }
}

}  // namespace
}  // namespace profd::e2e
