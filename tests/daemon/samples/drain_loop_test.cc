#include "daemon/samples/drain_loop.h"

#include <chrono>

#include <boost/asio/post.hpp>
#include <gtest/gtest.h>

#include "tests/daemon/samples/fake_source.h"

namespace profd {
namespace {

using namespace std::chrono_literals;

class DrainLoopTest : public testing::Test {
 protected:
  // As a handler that runs again and again.
  void count_turns() {
    if (++turns_ >= kTurns) {
      drains_ = source_.drains;
      source_.is_flooded = false;
      loop_.stop();
      return;
    }
    boost::asio::post(io_, [this] { count_turns(); });
  }

  static constexpr int kTurns = 100;

  Aggregator aggregator_;
  test::FakeSource source_{aggregator_};
  boost::asio::io_context io_;
  DrainLoop loop_{io_, source_};
  int turns_ = 0;
  int drains_ = 0;
};

TEST_F(DrainLoopTest, OthersHaveTurnsWhileTheRingsNeverEmpty) {
  source_.is_flooded = true;
  loop_.set_sessions(true);
  boost::asio::steady_timer first(io_, DrainLoop::kIntervalOfSessions * 2);
  first.async_wait([this](const boost::system::error_code&) { count_turns(); });
  io_.run_for(30s);
  EXPECT_TRUE(io_.stopped());
  EXPECT_EQ(turns_, kTurns);
  EXPECT_GE(drains_, kTurns) << "the rings are drained in between";
}

TEST_F(DrainLoopTest, WindowsAloneAreDrainedEveryFourSeconds) {
  loop_.set_windows(true);
  boost::asio::steady_timer end(io_, 8s);
  end.async_wait([this](const boost::system::error_code&) { loop_.stop(); });
  io_.run_for(60s);
  EXPECT_TRUE(io_.stopped());
  EXPECT_GE(source_.drains, 1);
  EXPECT_LE(source_.drains, 3);
}

TEST_F(DrainLoopTest, WindowsAreDrainedAtOnceWhenTheSourceAsks) {
  loop_.set_windows(true);
  ::eventfd_write(source_.wake_fd(), 1);
  for (int tasks = 0; source_.drains == 0 && tasks < 100; ++tasks) io_.run_one_for(30s);
  EXPECT_EQ(source_.drains, 1);
  loop_.stop();
  io_.run_for(30s);
}

TEST_F(DrainLoopTest, EmptyRingsAreDrainedOnceAnInterval) {
  loop_.set_sessions(true);
  boost::asio::steady_timer end(io_, DrainLoop::kIntervalOfSessions * 5);
  end.async_wait([this](const boost::system::error_code&) { loop_.stop(); });
  io_.run_for(30s);
  EXPECT_TRUE(io_.stopped());
  EXPECT_GE(source_.drains, 3);
  EXPECT_LE(source_.drains, 7);
}

}  // namespace
}  // namespace profd
