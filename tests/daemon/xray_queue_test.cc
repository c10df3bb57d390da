#include "daemon/xray_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace profd {
namespace {

using std::chrono::seconds;

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

Result<bool> add(XrayQueue& queue, uid_t owner, const struct stat& status,
                 XrayQueue::Clock::time_point now = kNow) {
  return queue.add({.name = std::to_string(owner), .file = {}, .owner = owner}, status, now);
}

TEST(XrayQueue, OneOwnersFloodTakesNobodyElsesPlaceOrTurn) {
  XrayQueue queue;
  for (ino_t i = 1; i <= 1000; ++i) {
    EXPECT_EQ(bool(add(queue, 500, file(i))), i <= XrayQueue::kMaxOfOwner) << i;
  }
  ASSERT_TRUE(add(queue, 501, file(2000)));
  EXPECT_EQ(queue.next()->owner, 500U);
  EXPECT_EQ(queue.next()->owner, 501U);
}

TEST(XrayQueue, AFileWaitsOnceHoweverOftenItIsClosed) {
  XrayQueue queue;
  EXPECT_TRUE(*add(queue, 500, file(1)));
  EXPECT_FALSE(*add(queue, 500, file(1, 2)));
  ASSERT_TRUE(queue.next());
  EXPECT_FALSE(queue.next());
}

TEST(XrayQueue, AFileThatHasBeenReadComesAgainOnlyWhenItHasChanged) {
  XrayQueue queue;
  EXPECT_TRUE(*add(queue, 500, file(1)));
  ASSERT_TRUE(queue.next());
  EXPECT_FALSE(*add(queue, 500, file(1)));
  EXPECT_TRUE(*add(queue, 500, file(1, 2)));
}

TEST(XrayQueue, AnOwnerWhoseFilesTookTheirTimeWaitsForTheNextWindow) {
  XrayQueue queue;
  queue.spent(500, XrayQueue::kMaxReading, kNow);
  queue.spent(0, XrayQueue::kMaxReading, kNow);
  EXPECT_FALSE(add(queue, 500, file(1)));
  EXPECT_TRUE(add(queue, 501, file(2)));
  EXPECT_TRUE(add(queue, 0, file(3)));
  EXPECT_TRUE(add(queue, 500, file(4), kNow + XrayQueue::kReadingWindow));
}

TEST(XrayQueue, HolesAndHugeFilesAndOthersThanRegularOnesAreRefused) {
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
