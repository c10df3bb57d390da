// Which JVMs of the history are asked for their symbols, and what is said of it.
//
// Mutations that the tests find: a process that is no JVM, an idle one or one of pid 0 that is
// asked, a JVM that refused and is asked again too early or never, another process of its pid that
// is left alone with it, no limit of a turn, and a signal that waits for the end of the turn.

#include <unistd.h>

#include <chrono>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "ctl/process/jvm_asker.h"
#include "formats/base/errors.h"
#include "tests/ctl/profctl_fixture.h"

namespace profd {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

ProcessShare share_of(std::uint32_t pid, double cpu_percent, const std::string& runtime) {
  ProcessShare share;
  share.cpu_percent = cpu_percent;
  share.pid = pid;
  share.start_time_ns = 1;
  share.comm = "app";
  if (!runtime.empty()) {
    share.jit = JitNames{.runtime = runtime, .file = {}, .functions = 0, .samples = 9};
  }
  return share;
}

class JvmAskerTest : public ::testing::Test {
 protected:
  std::vector<AskedJvm> turn(const WindowShares& window) {
    return asker_.turn(window, now_, [this] { return asked_.size() >= stops_after_; });
  }

  JvmAsker::Clock::time_point now_{1h};
  std::size_t stops_after_ = 1000;
  std::vector<pid_t> asked_;
  pid_t refuses_ = 0;
  JvmAsker asker_{[this](pid_t pid) -> Result<void> {
    asked_.push_back(pid);
    if (pid == refuses_) return fail(ErrorCode::kTimeout, "it does not answer\x1b[31m");
    return {};
  }};
};

TEST_F(JvmAskerTest, AsksJvmsThatUsedTheCpu) {
  WindowShares window;
  window.processes = {share_of(9, 90, "Java"), share_of(8, 80, "Node.js"), share_of(7, 70, ""),
                      share_of(0, 60, "Java"), share_of(6, 5.1, "Java"),   share_of(5, 5, "Java")};
  const auto asked = turn(window);
  EXPECT_THAT(asked_, ElementsAre(9, 6)) << "the busiest first";
  EXPECT_EQ(text_of(asked), "2 JVMs have written their symbols: app 6, app 9");
  (void)turn(window);
  EXPECT_THAT(asked_, ElementsAre(9, 6, 9, 6)) << "later code has no name before";
}

TEST_F(JvmAskerTest, LeavesAJvmThatRefusedAloneForAWhile) {
  WindowShares window;
  window.processes = {share_of(9, 90, "Java"), share_of(6, 50, "Java")};
  refuses_ = 9;
  EXPECT_EQ(text_of(turn(window)),
            "1 JVM has written its symbols: app 6; app 9: it does not answer?[31m");
  now_ += JvmAsker::kPause - 1s;
  EXPECT_THAT(turn(window), SizeIs(1));
  window.processes[0].start_time_ns = 2;  // another process
  EXPECT_THAT(turn(window), SizeIs(2));
  window.processes[0].start_time_ns = 1;
  now_ += 1s;
  EXPECT_THAT(turn(window), SizeIs(2));
}

TEST_F(JvmAskerTest, ATurnIsBoundedAndEndsWhereASignalComes) {
  WindowShares window;
  for (std::uint32_t pid = 1; pid <= 100; ++pid) {
    window.processes.push_back(share_of(pid, 50, "Java"));
  }
  EXPECT_THAT(turn(window), SizeIs(JvmAsker::kMaxOfTurn));
  stops_after_ = asked_.size() + 2;
  EXPECT_THAT(turn(window), SizeIs(2));
  EXPECT_THAT(text_of(std::vector<AskedJvm>()), IsEmpty());
}

class AskRuntimesTest : public test::ProfctlTest {};

// The test itself is no JVM: it gets no signal.
TEST_F(AskRuntimesTest, OnceSaysWhatTheProcessesOfTheLastWindowAnswered) {
  service_.windows.windows = {WindowShares{}};
  const Ran none = run({"ask-runtimes", "--once"});
  EXPECT_EQ(none.code, 0) << none.err;
  EXPECT_THAT(none.out, HasSubstr("no JVM used over 5 %"));
  service_.windows.windows[0].processes = {
      share_of(static_cast<std::uint32_t>(::getpid()), 50, "Java")};
  const Ran one = run({"ask-runtimes", "--once"});
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_THAT(one.out, HasSubstr("0 JVMs have written their symbols; app "));
  EXPECT_THAT(one.out, HasSubstr("does not run a HotSpot JVM"));
  EXPECT_THAT(run({"ask-runtimes", "--once", "--json"}).out, HasSubstr("\"error\":"));
}

}  // namespace
}  // namespace profd
