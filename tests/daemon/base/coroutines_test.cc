#include "daemon/base/coroutines.h"

#include <thread>

#include <gtest/gtest.h>

namespace profd {
namespace {

using namespace std::chrono_literals;
using boost::asio::steady_timer;

TEST(CoroutinesTest, ATimerExpiresAtTheNextMultipleOfItsInterval) {
  boost::asio::io_context io;
  steady_timer timer(io);
  for (const auto interval : {1ms, 7ms, 250ms, 1000ms}) {
    const auto before = steady_timer::clock_type::now();
    expire_with_others(timer, interval);
    EXPECT_EQ(timer.expiry().time_since_epoch() % interval, 0ns);
    EXPECT_GT(timer.expiry(), before);
    EXPECT_LE(timer.expiry(), steady_timer::clock_type::now() + interval);
  }
}

TEST(CoroutinesTest, TimersThatStartInOneIntervalExpireTogether) {
  boost::asio::io_context io;
  steady_timer first(io);
  steady_timer second(io);
  expire_with_others(first, 1h);
  std::this_thread::sleep_for(5ms);
  expire_with_others(second, 1h);
  EXPECT_EQ(first.expiry(), second.expiry());
}

}  // namespace
}  // namespace profd
