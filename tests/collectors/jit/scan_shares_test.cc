// The shares of users in the scans of processes for JIT sources.

#include <poll.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "collectors/jit/followed_files.h"
#include "collectors/jit/follower.h"
#include "collectors/jit/scan_queue.h"
#include "tests/collectors/jit/runtime.h"

namespace profd::test {
namespace {

using Refusal = std::optional<JitRefusal>;

TEST(ScanQueue, OneUserHasAnEighth) {
  ScanQueue queue;
  for (std::size_t i = 0; i < ScanQueue::kMaxQueuedOfUser; ++i) {
    ASSERT_EQ(queue.add({}, kOther), Refusal());
  }
  EXPECT_EQ(queue.add({}, kOther), JitRefusal::kOverShare);
  EXPECT_EQ(queue.add({}, kOther + 1), Refusal());
  EXPECT_EQ(queue.add({}, 0), Refusal());
  EXPECT_EQ(queue.scans().size(), ScanQueue::kMaxQueuedOfUser + 2);
}

TEST(ScanQueue, UsersLeaveHalfToRoot) {
  ScanQueue queue;
  for (std::uint32_t i = 0; i < ScanQueue::kMaxQueuedOfUsers; ++i) {
    ASSERT_EQ(queue.add({}, 1000 + i), Refusal());
  }
  EXPECT_EQ(queue.add({}, 1), JitRefusal::kQueueFull);
  for (std::size_t i = ScanQueue::kMaxQueuedOfUsers; i < ScanQueue::kMaxQueued; ++i) {
    ASSERT_EQ(queue.add({}, 0), Refusal());
  }
  EXPECT_EQ(queue.add({}, 0), JitRefusal::kQueueFull);
}

// The answer of the follower to a scan of this process for a user.
class ScanTimeTest : public testing::Test {
 protected:
  void SetUp() override {
    auto started =
        JitFollower::start({directory_.path()}, nullptr, owners_with_subordinates(directory_));
    ASSERT_TRUE(started) << started.error().message;
    follower_ = std::move(*started);
  }

  JitScan scan_for(std::uint32_t uid) {
    const ProcessKey self = runtime_.key();
    EXPECT_EQ(follower_->scan({.process = self, .uid = uid}, uid), Refusal());
    for (int tries = 0; tries < 100; ++tries) {
      pollfd events{.fd = follower_->wake_fd(), .events = POLLIN, .revents = 0};
      ::poll(&events, 1, 200);
      for (const JitEvent& event : follower_->take()) {
        if (const auto* const scanned = std::get_if<JitProcessScanned>(&event))
          return scanned->scan;
      }
    }
    ADD_FAILURE() << "no answer";
    return {};
  }
  static bool is_over_share(const JitScan& scan) {
    return std::ranges::find(scan.refusals, JitRefusal::kOverShare) != scan.refusals.end();
  }

  PrivateDirectory directory_;
  Runtime runtime_;
  std::unique_ptr<JitFollower> follower_;
};

TEST_F(ScanTimeTest, AUserWithoutTimeLeftIsNotScannedFor) {
  follower_->charge(kSubordinate, 8 * FollowedFiles::kMaxTime);
  EXPECT_TRUE(is_over_share(scan_for(kOther))) << "whose subordinate uid it is";
  EXPECT_FALSE(is_over_share(scan_for(kOther + 1)));
  EXPECT_FALSE(is_over_share(scan_for(0)));
}

}  // namespace
}  // namespace profd::test
