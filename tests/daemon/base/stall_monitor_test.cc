#include "daemon/base/stall_monitor.h"

#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

#include <boost/asio/post.hpp>
#include <gtest/gtest.h>

namespace profd {
namespace {

using namespace std::chrono_literals;

constexpr auto kLimit = 50ms;
constexpr auto kStall = 400ms;

// By this thread; a wait for a CPU is no stall.
std::chrono::nanoseconds used_cpu() {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

class StallMonitorTest : public testing::Test {
 protected:
  // Runs the event loop, with `handler` after some time.
  void run(const std::function<void()>& handler) {
    boost::asio::io_context io{1};
    StallMonitor monitor(io, kLimit);
    io.run_for(100ms);
    boost::asio::post(io, handler);
    io.restart();
    io.run_for(kStall + 300ms);
    stalls_ = monitor.stalls();
    longest_ = monitor.longest();
  }

  std::uint64_t stalls_ = 0;
  std::chrono::milliseconds longest_{};
};

TEST_F(StallMonitorTest, ACallThatBlocksIsReportedWithItsStack) {
  testing::internal::CaptureStderr();
  run([] { std::this_thread::sleep_for(kStall); });
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_EQ(stalls_, 1U);
  EXPECT_GE(longest_, kStall - 100ms);
  EXPECT_NE(printed.find("daemon_test"), std::string::npos) << printed;
}

TEST_F(StallMonitorTest, AHandlerThatComputesTooLongIsReported) {
  run([] {
    const auto end = used_cpu() + kStall;
    while (used_cpu() < end) {
    }
  });
  EXPECT_GE(stalls_, 1U);
}

TEST_F(StallMonitorTest, AnIdleEventLoopIsNotReported) {
  run([] {});
  EXPECT_EQ(stalls_, 0U);
}

TEST(StallMonitorLimitTest, ComesFromTheEnvironment) {
  ::unsetenv("PROFD_STALL_MS");
  EXPECT_FALSE(StallMonitor::limit_of_environment());
  for (const char* const wrong : {"", "0", "-5", "50x", "99999999999"}) {
    ::setenv("PROFD_STALL_MS", wrong, 1);
    EXPECT_FALSE(StallMonitor::limit_of_environment()) << wrong;
  }
  ::setenv("PROFD_STALL_MS", "50", 1);
  EXPECT_EQ(StallMonitor::limit_of_environment(), 50ms);
  ::unsetenv("PROFD_STALL_MS");
}

}  // namespace
}  // namespace profd
