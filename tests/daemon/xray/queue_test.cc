#include "daemon/xray/queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace profd {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

struct stat file(ino_t inode, std::int64_t changed = 1) {
  struct stat status {};
  status.st_mode = S_IFREG | 0600;
  status.st_ino = inode;
  status.st_size = 4096;
  status.st_blocks = 8;
  status.st_ctim.tv_sec = changed;
  return status;
}

const XrayQueue::Clock::time_point kNow{seconds(1000)};

Result<bool> add(XrayQueue& queue, uid_t owner, const struct stat& status) {
  return queue.add(
      {.name = std::to_string(status.st_ino), .file = {}, .owner = owner, .user = owner}, status);
}

bool all_have_room(uid_t) { return true; }

TEST(XrayQueue, AnOwnerWithManyTracesTakesNoPlaceAndNoTurnOfAnother) {
  XrayQueue queue;
  constexpr std::size_t kMost = XrayQueue::kMaxOfOwner + XrayQueue::kMaxDeferred;
  for (ino_t i = 1; i <= 1000; ++i) {
    const auto added = add(queue, 500, file(i));
    EXPECT_EQ(bool(added), i <= kMost) << i;
    EXPECT_EQ(added && *added, i <= XrayQueue::kMaxOfOwner) << i;
  }
  ASSERT_TRUE(*add(queue, 501, file(2000)));
  EXPECT_EQ(queue.next(kNow, all_have_room)->owner, 500U);
  EXPECT_EQ(queue.next(kNow, all_have_room)->owner, 501U);
}

TEST(XrayQueue, DeferredTracesGetFreePlacesInTheirOrder) {
  XrayQueue queue;
  for (ino_t i = 1; i <= XrayQueue::kMaxOfOwner + 3; ++i) ASSERT_TRUE(add(queue, 500, file(i)));
  EXPECT_FALSE(*add(queue, 500, file(XrayQueue::kMaxOfOwner + 1))) << "deferred once";
  EXPECT_THAT(queue.take_deferred(), IsEmpty());
  ASSERT_TRUE(queue.next(kNow, all_have_room));
  ASSERT_TRUE(queue.next(kNow, all_have_room));
  EXPECT_THAT(queue.take_deferred(), ElementsAre("9", "10"));
  EXPECT_TRUE(*add(queue, 500, file(9)));
  EXPECT_TRUE(*add(queue, 500, file(10)));
  EXPECT_THAT(queue.take_deferred(), IsEmpty());
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(queue.next(kNow, all_have_room)) << i;
  EXPECT_FALSE(queue.empty());
  EXPECT_THAT(queue.take_deferred(), ElementsAre("11"));
  EXPECT_TRUE(queue.empty());
}

TEST(XrayQueue, DeferredTracesOfManyOwnersCanBeTakenInParts) {
  XrayQueue queue;
  for (uid_t owner = 500; owner < 503; ++owner) {
    for (ino_t i = 0; i < 2; ++i) {
      ASSERT_TRUE(queue.defer({.name = std::to_string(owner) + "." + std::to_string(i),
                               .file = {},
                               .owner = owner,
                               .user = owner}));
    }
  }
  EXPECT_THAT(queue.take_deferred(3), ElementsAre("500.0", "500.1", "501.0"));
  EXPECT_THAT(queue.take_deferred(2), ElementsAre("501.1", "502.0"));
  EXPECT_THAT(queue.take_deferred(2), ElementsAre("502.1"));
  EXPECT_TRUE(queue.empty());
}

TEST(XrayQueue, AnOwnerWithoutRoomForAResultWaitsAndOthersDoNot) {
  XrayQueue queue;
  ASSERT_TRUE(*add(queue, 500, file(1)));
  ASSERT_TRUE(*add(queue, 501, file(2)));
  const auto only_501 = [](uid_t owner) { return owner == 501; };
  EXPECT_EQ(queue.next(kNow, only_501)->owner, 501U);
  EXPECT_FALSE(queue.next(kNow, only_501));
  EXPECT_FALSE(queue.empty());
  EXPECT_EQ(queue.next(kNow, all_have_room)->owner, 500U);
}

TEST(XrayQueue, TracesOfManyOwnersAreDeferredUpToALimit) {
  XrayQueue queue;
  ino_t inode = 0;
  for (uid_t owner = 1; owner <= 2 * XrayQueue::kMaxOwners; ++owner) {
    const auto added = add(queue, owner, file(++inode));
    ASSERT_TRUE(added) << owner;
    EXPECT_EQ(*added, owner <= XrayQueue::kMaxOwners) << owner;
  }
  EXPECT_FALSE(add(queue, 10'000, file(++inode)));
  EXPECT_TRUE(*add(queue, 0, file(++inode))) << "root always has a place";
}

TEST(XrayQueue, AFileWaitsOnceHoweverOftenItIsClosed) {
  XrayQueue queue;
  EXPECT_TRUE(*add(queue, 500, file(1)));
  EXPECT_FALSE(*add(queue, 500, file(1, 2)));
  ASSERT_TRUE(queue.next(kNow, all_have_room));
  EXPECT_FALSE(queue.next(kNow, all_have_room));
}

TEST(XrayQueue, AFileThatWasReadIsAddedAgainOnlyWhenItHasChanged) {
  XrayQueue queue;
  EXPECT_TRUE(*add(queue, 500, file(1)));
  ASSERT_TRUE(queue.next(kNow, all_have_room));
  EXPECT_FALSE(*add(queue, 500, file(1)));
  EXPECT_TRUE(*add(queue, 500, file(1, 2)));
}

TEST(XrayQueue, AnOwnerWhoseReadingTimeIsUsedUpWaitsForTheNextWindow) {
  XrayQueue queue;
  queue.count_reading(500, XrayQueue::kMaxReading, kNow);
  queue.count_reading(0, XrayQueue::kMaxReading, kNow);
  ASSERT_TRUE(*add(queue, 500, file(1)));
  ASSERT_TRUE(*add(queue, 501, file(2)));
  ASSERT_TRUE(*add(queue, 0, file(3)));
  EXPECT_EQ(queue.next(kNow, all_have_room)->owner, 0U);
  EXPECT_EQ(queue.next(kNow, all_have_room)->owner, 501U);
  EXPECT_FALSE(queue.next(kNow, all_have_room));
  EXPECT_EQ(queue.next(kNow + XrayQueue::kReadingWindow, all_have_room)->owner, 500U);
}

TEST(XrayQueue, SparseHugeAndIrregularFilesAreRefused) {
  XrayQueue queue;
  struct stat holes = file(1);
  holes.st_size = std::int64_t{1} << 30;
  EXPECT_FALSE(add(queue, 500, holes));
  struct stat huge = file(2);
  huge.st_size = std::int64_t{5} << 30;
  huge.st_blocks = huge.st_size / 512;
  EXPECT_FALSE(add(queue, 500, huge));
  struct stat pipe = file(3);
  pipe.st_mode = S_IFIFO;
  EXPECT_FALSE(add(queue, 500, pipe));
}

}  // namespace
}  // namespace profd
