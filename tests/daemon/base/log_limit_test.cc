#include "daemon/base/log_limit.h"

#include <gtest/gtest.h>

namespace profd::log {
namespace {

using namespace std::chrono_literals;

constexpr LineLimit::Clock::time_point kStart{1000s};

// How many of so many lines at one time are written.
std::size_t written(LineLimit& limit, std::string_view cause, std::size_t lines,
                    LineLimit::Clock::time_point now) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < lines; ++i) count += limit.allows(cause, now);
  return count;
}

TEST(LogLimitTest, AFloodOfOneCauseIsTenLinesASecond) {
  LineLimit limit;
  std::size_t lines = 0;
  for (int ms = 0; ms < 5000; ++ms) lines += written(limit, "flood {}", 3, kStart + ms * 1ms);
  EXPECT_EQ(lines, 50U);
}

TEST(LogLimitTest, LinesOfOtherCausesAreWritten) {
  LineLimit limit;
  EXPECT_EQ(written(limit, "flood {}", 1000, kStart), 10U);
  EXPECT_EQ(written(limit, "session {} is lost", 3, kStart), 3U);
}

TEST(LogLimitTest, WhatWasLeftOutIsCountedOnceAndNotBeforeTheSecondIsOver) {
  LineLimit limit;
  (void)written(limit, "flood {}", 1010, kStart);
  (void)written(limit, "few {}", 5, kStart);
  EXPECT_TRUE(limit.take_left_out(kStart + 999ms).empty());
  const auto left_out = limit.take_left_out(kStart + 1s);
  ASSERT_EQ(left_out.size(), 1U);
  EXPECT_EQ(left_out[0].cause, "flood {}");
  EXPECT_EQ(left_out[0].lines, 1000U);
  EXPECT_TRUE(limit.take_left_out(kStart + 2s).empty());
}

TEST(LogLimitTest, CausesTakeLimitedMemory) {
  LineLimit limit;
  std::size_t lines = 0;
  for (std::size_t i = 0; i < 5000; ++i) lines += limit.allows(std::to_string(i), kStart);
  EXPECT_EQ(lines, LineLimit::kMaxCauses + LineLimit::kMaxLines);
}

}  // namespace
}  // namespace profd::log
