// When what failed is tried again, with a clock of the test.

#include "collectors/files/retry_queue.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>

namespace profd {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint32_t kRetryRoot = 0;
constexpr std::uint32_t kRetryUser = 1000;

class RetryQueueTest : public testing::Test {
 protected:
  void add(int key, std::uint32_t uid = kRetryRoot) {
    queue_.add(key, uid, std::to_string(key), now_);
  }
  // The values that are tried after some time; `is_done` is what each try returns.
  std::vector<std::string> tried_after(std::chrono::milliseconds time, bool is_done = false) {
    std::vector<std::string> tried;
    now_ += time;
    queue_.try_due(now_, [&](const std::string& value) {
      tried.push_back(value);
      return is_done;
    });
    return tried;
  }

  RetryQueue<int, std::string> queue_{1h};
  Backoff::TimePoint now_{1000s};
};

TEST_F(RetryQueueTest, TheTimeBetweenTriesDoublesUpToAMinute) {
  add(1);
  for (const auto wait : {1s, 2s, 4s, 8s, 16s, 32s, 60s, 60s}) {
    EXPECT_THAT(tried_after(wait - 1ms), IsEmpty()) << wait.count();
    EXPECT_THAT(tried_after(1ms), ElementsAre("1")) << wait.count();
  }
}

TEST_F(RetryQueueTest, ThereIsNoTryAfterOneThatIsDone) {
  add(1);
  EXPECT_THAT(tried_after(1s, true), ElementsAre("1"));
  EXPECT_THAT(tried_after(1h), IsEmpty());
  EXPECT_EQ(queue_.size(), 0U);
}

TEST_F(RetryQueueTest, TheNumberOfTriesIsLimited) {
  add(1);
  unsigned tries = 0;
  while (queue_.size() != 0) {
    tries += static_cast<unsigned>(tried_after(1min).size());
    ASSERT_LE(tries, Backoff::kMaxTries);
  }
  EXPECT_EQ(tries, 16U);
}

TEST_F(RetryQueueTest, AKnownKeyKeepsItsTimes) {
  add(1);
  EXPECT_THAT(tried_after(1s), ElementsAre("1"));
  add(1);
  EXPECT_THAT(tried_after(1s), IsEmpty());
  EXPECT_EQ(queue_.size(), 1U);
}

TEST_F(RetryQueueTest, WhatIsRemovedIsNotTried) {
  add(1);
  add(2);
  queue_.remove(1);
  queue_.remove(3);
  EXPECT_THAT(tried_after(1s), ElementsAre("2"));
}

TEST_F(RetryQueueTest, AUserHasAnEighthAndAllUsersHaveHalf) {
  for (int i = 0; i < 2000; ++i) add(i, kRetryUser);
  EXPECT_EQ(queue_.size(), 128U);
  for (int i = 2000; i < 4000; ++i) add(i, kRetryUser + 1 + static_cast<std::uint32_t>(i % 100));
  EXPECT_EQ(queue_.size(), 512U);
  for (int i = 4000; i < 6000; ++i) add(i);
  EXPECT_EQ(queue_.size(), 1024U);
  for (int i = 0; i < 128; ++i) queue_.remove(i);
  add(7000, kRetryUser);
  EXPECT_EQ(queue_.size(), 897U);
}

TEST_F(RetryQueueTest, AFailureDefersTheOtherEntriesOfThatUserAndNotThoseOfOthers) {
  for (int i = 0; i < 100; ++i) add(i, kRetryUser);
  add(100);
  add(101);
  add(102, kRetryUser + 1);
  EXPECT_THAT(tried_after(1s), ElementsAre("0", "100", "101", "102"));
  EXPECT_THAT(tried_after(1s), ElementsAre("1"));
  EXPECT_THAT(tried_after(1s), ElementsAre("2", "100", "101", "102"));
}

TEST_F(RetryQueueTest, ACallEndsWithTheTryThatTakesTooLong) {
  RetryQueue<int, std::string> queue{5ms};
  for (const int key : {1, 2}) queue.add(key, kRetryRoot, std::to_string(key), now_);
  std::vector<std::string> tried;
  queue.try_due(now_ + 1s, [&tried](const std::string& value) {
    tried.push_back(value);
    const auto end = std::chrono::steady_clock::now() + 10ms;
    while (std::chrono::steady_clock::now() < end) {
    }
    return false;
  });
  EXPECT_THAT(tried, ElementsAre("1"));
}

}  // namespace
}  // namespace profd
