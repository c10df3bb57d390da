// The position of an endpoint without an endpoint: what is stored when.

#include "ctl/ship/ship_position.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>

namespace profd {
namespace {

using std::chrono_literals::operator""min;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using Saved = ShipPosition::Saved;

const ShipTime kOneMinuteAfterNoon =
    std::chrono::sys_days(std::chrono::year(2026) / 1 / 2) + std::chrono::minutes(721);
constexpr const char* kNoonWindow = "20260102T120000Z";
constexpr const char* kFutureWindow = "20260102T121200Z";

class ShipPositionTest : public testing::Test {
 protected:
  ShipPositionTest() {
    std::string pattern = std::filesystem::temp_directory_path() / "ship-position-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
    file_.emplace(ShipStateFile::open(directory_, "a").value());
  }
  ~ShipPositionTest() override { std::filesystem::remove_all(directory_); }

  // What a later process reads.
  [[nodiscard]] const ShipState& stored() const { return file_->state(); }

  std::filesystem::path directory_;
  std::optional<ShipStateFile> file_;
};

TEST_F(ShipPositionTest, AWindowIsInFlightUntilItIsDone) {
  ShipPosition position(*file_, 9min);
  position.begin({});
  position.put_in_flight(kNoonWindow);
  ASSERT_TRUE(position.save());
  EXPECT_EQ(stored().in_flight, kNoonWindow);
  EXPECT_EQ(stored().window, "");
  position.note_arrival();
  position.count_sent(5);
  EXPECT_FALSE(position.is_saved());
  position.finish(kNoonWindow);
  ASSERT_TRUE(position.save());
  EXPECT_EQ(stored().in_flight, "");
  EXPECT_EQ(stored().window, kNoonWindow);
  EXPECT_EQ(stored().windows_sent, 1U);
  EXPECT_EQ(stored().bytes_sent, 5U);
  EXPECT_TRUE(position.is_saved());
}

TEST_F(ShipPositionTest, AWindowOfWhichNothingArrivedCanBeStoredAsNotBegun) {
  ShipPosition position(*file_, 9min);
  position.begin({.parts = {}, .samples_dropped = 3, .services_over_limit = 2, .series_joined = 4});
  position.put_in_flight(kNoonWindow);
  position.count_loss("refused", 7);
  ASSERT_TRUE(position.save());
  EXPECT_EQ(stored().rows_dropped, 3U);
  EXPECT_EQ(stored().series_joined, 4U);
  ASSERT_TRUE(position.save(Saved::kWithoutWindow));
  EXPECT_EQ(stored(), ShipState());
  EXPECT_FALSE(position.is_in_flight(kNoonWindow));
  EXPECT_THAT(position.state().profiles_dropped, ElementsAre(Pair("refused", 1)));
}

TEST_F(ShipPositionTest, AWindowWithoutAStoredProfileIsLostForItsFirstReason) {
  ShipPosition position(*file_, 9min);
  position.begin({});
  position.count_loss("refused", 1);
  position.count_loss("unknown", 1);
  position.finish("20260102T120000Z");
  position.begin({});
  position.count_loss("too_large", 1);
  position.count_sent(1);
  position.finish("20260102T120100Z");
  position.begin({});
  position.finish("20260102T120200Z");
  EXPECT_THAT(position.state().windows_dropped, ElementsAre(Pair("refused", 1)));
  EXPECT_EQ(position.state().windows_sent, 2U);
}

TEST_F(ShipPositionTest, AWindowInTheFutureIsCountedOnce) {
  ShipPosition position(*file_, 9min);
  EXPECT_FALSE(position.skip(kNoonWindow, kOneMinuteAfterNoon));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(position.skip(kFutureWindow, kOneMinuteAfterNoon));
  EXPECT_THAT(position.state().windows_dropped, ElementsAre(Pair("in_future", 1)));
  EXPECT_FALSE(position.skip(kFutureWindow, kOneMinuteAfterNoon + 2min));
}

TEST_F(ShipPositionTest, APositionInTheFutureIsLeftUntilAWindowIsDone) {
  ShipPosition position(*file_, 9min);
  position.drop_window(kFutureWindow, "malformed");
  EXPECT_EQ(position.after(kOneMinuteAfterNoon), kFutureWindow);
  EXPECT_TRUE(position.is_stuck(kOneMinuteAfterNoon));
  EXPECT_EQ(position.leave_future({kNoonWindow, kFutureWindow}, kOneMinuteAfterNoon), kNoonWindow);
  EXPECT_FALSE(position.is_stuck(kOneMinuteAfterNoon));
  EXPECT_EQ(position.after(kOneMinuteAfterNoon), kNoonWindow);
  EXPECT_EQ(position.state().window, kFutureWindow);
  position.begin({});
  position.finish("20260102T120100Z");
  EXPECT_EQ(position.after(kOneMinuteAfterNoon), "20260102T120100Z");
}

TEST_F(ShipPositionTest, WhatWasInFlightIsUnknownAndDone) {
  {
    ShipPosition killed(*file_, 9min);
    killed.begin({});
    killed.put_in_flight(kNoonWindow);
    ASSERT_TRUE(killed.save());
  }
  ShipPosition position(*file_, 9min);
  EXPECT_EQ(position.settle_in_flight(), kNoonWindow);
  EXPECT_EQ(position.settle_in_flight(), "");
  EXPECT_EQ(position.state().window, kNoonWindow);
  EXPECT_EQ(position.state().windows_unknown, 1U);
  EXPECT_THAT(position.state().windows_dropped, IsEmpty());
}

}  // namespace
}  // namespace profd
