// Continuous mode while the disk takes no window: some wait, and what has no place is counted.

#include <chrono>
#include <cstdint>
#include <future>
#include <string>

#include <gmock/gmock.h>

#include "tests/daemon/history/continuous_fixture.h"
#include "tests/daemon/storage/fsync_watch.h"

namespace profd {
namespace {

using test::ContinuousTest;
using test::SyntheticSample;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

class SlowDiskTest : public ContinuousTest {
 protected:
  void SetUp() override {
    ContinuousTest::SetUp();
    continuous_->configure(config_);
  }
  void TearDown() override {
    if (!is_ready_) let_go();
    ContinuousTest::TearDown();
  }

  // Each change of the frequency ends a window.
  void end_window() {
    ++config_.frequency_hz;
    continuous_->configure(config_);
    run_until([&] {
      return source_.slots[0] && source_.slots[0]->event.frequency_hz == config_.frequency_hz;
    });
  }

  void take_much() {
    constexpr std::uint64_t kStacks = 20'000;
    for (std::uint64_t leaf = 1; leaf <= kStacks; ++leaf) {
      SyntheticSample sample(kProcess);
      sample.leaf(leaf);
      for (std::uint64_t i = 0; i < 64; ++i) sample.user(i);
      source_.take(sample, newest_slot());
    }
  }

  void let_go() {
    is_ready_ = true;
    disk_.set_value();
  }

 private:
  bool is_ready_ = false;
  std::promise<void> disk_;
  std::shared_future<void> ready_ = disk_.get_future().share();
  test::FsyncWatch slow_{[this](const std::string&) { ready_.wait_for(kHang); }};
  ContinuousConfig config_{.enabled = true, .window = std::chrono::hours(1), .frequency_hz = 19};
};

TEST_F(SlowDiskTest, TwelveWindowsWaitAndTheNextOneIsLost) {
  for (int i = 0; i < 13; ++i) end_window();
  EXPECT_EQ(continuous_->status().waiting, 13U) << "one of them is being written";
  EXPECT_THAT(continuous_->status().failed, IsEmpty());
  take(4);
  end_window();
  EXPECT_THAT(continuous_->status().failed, ElementsAre(Pair("writer_busy", 1)));
  EXPECT_EQ(continuous_->status().lost_samples, 4U);
  let_go();
  wait_for_windows(13);
}

TEST_F(SlowDiskTest, OnlyTwoLargeWindowsWait) {
  for (int i = 0; i < 3; ++i) {
    take_much();
    end_window();
  }
  EXPECT_EQ(continuous_->status().waiting, 3U);
  EXPECT_THAT(continuous_->status().failed, IsEmpty());
  take(4);
  end_window();
  EXPECT_THAT(continuous_->status().failed, ElementsAre(Pair("writer_busy", 1)));
  let_go();
  wait_for_windows(3);
}

}  // namespace
}  // namespace profd
