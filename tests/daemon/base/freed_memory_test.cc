#include "daemon/base/freed_memory.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include <gtest/gtest.h>

namespace profd {
namespace {

using namespace std::chrono_literals;

constexpr auto kHangGuard = 60s;

bool eventually(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + kHangGuard;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

TEST(FreedMemoryTest, ARequestIsServedOnAThreadOfItsOwn) {
  std::atomic<std::thread::id> server;
  FreedMemory memory([&server] { server = std::this_thread::get_id(); }, 1ms);
  memory.request();
  ASSERT_TRUE(eventually([&server] { return server.load() != std::thread::id(); }));
  EXPECT_NE(server.load(), std::this_thread::get_id());
}

TEST(FreedMemoryTest, RequestsDuringACallAreServedByOneMore) {
  std::atomic<int> calls = 0;
  std::atomic<bool> may_end = false;
  FreedMemory memory(
      [&] {
        ++calls;
        may_end.wait(false);
      },
      0ms);
  memory.request();
  ASSERT_TRUE(eventually([&calls] { return calls == 1; }));
  for (int i = 0; i < 1000; ++i) memory.request();
  may_end = true;
  may_end.notify_all();
  ASSERT_TRUE(eventually([&calls] { return calls == 2; }));
  std::this_thread::sleep_for(50ms);  // a third one would come at once
  EXPECT_EQ(calls, 2);
}

TEST(FreedMemoryTest, RequestsInThePauseWaitForItsEnd) {
  constexpr auto kLongPause = 300ms;
  std::atomic<int> calls = 0;
  std::atomic<std::chrono::steady_clock::time_point> first;
  FreedMemory memory(
      [&] {
        if (++calls == 1) first = std::chrono::steady_clock::now();
      },
      kLongPause);
  memory.request();
  ASSERT_TRUE(eventually([&first] { return first.load() != decltype(first.load())(); }));
  ASSERT_TRUE(eventually([&] {
    memory.request();
    return calls == 2;
  }));
  EXPECT_GE(std::chrono::steady_clock::now() - first.load(), kLongPause);
}

TEST(FreedMemoryTest, ThePauseEndsWithTheObject) {
  const auto start = std::chrono::steady_clock::now();
  {
    std::atomic<bool> is_called = false;
    FreedMemory memory([&is_called] { is_called = true; }, 10min);
    memory.request();
    ASSERT_TRUE(eventually([&is_called] { return is_called.load(); }));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, kHangGuard);
}

}  // namespace
}  // namespace profd
