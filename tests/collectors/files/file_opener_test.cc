#include "collectors/files/file_opener.h"

#include <poll.h>

#include <chrono>
#include <future>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

namespace profd {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

MappingPlace place_of_inode(std::uint64_t inode) {
  MappingPlace place;
  place.file.inode = inode;
  return place;
}

// Files are named by their inodes. The open of an inode above 1000 hangs until release().
class FileOpenerTest : public ::testing::Test {
 protected:
  ~FileOpenerTest() override {
    if (!is_released_) gate_.set_value();
  }

  void release() {
    gate_.set_value();
    is_released_ = true;
  }

  [[nodiscard]] bool submit(std::uint32_t uid, std::uint64_t inode) {
    return opener_.submit(uid, place_of_inode(inode));
  }

  // The inodes of the files that are open when there are so many, or after a minute.
  std::multiset<std::uint64_t> opened(std::size_t count) {
    std::multiset<std::uint64_t> inodes;
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (inodes.size() < count && std::chrono::steady_clock::now() < end) {
      pollfd ready{.fd = opener_.wake_fd(), .events = POLLIN, .revents = 0};
      ::poll(&ready, 1, 5);
      for (const MappedFile& file : opener_.take()) inodes.insert(file.key.inode);
    }
    return inodes;
  }

  std::promise<void> gate_;
  bool is_released_ = false;
  FileOpener opener_{[gate = gate_.get_future().share()](const MappingPlace& place) {
    if (place.file.inode > 1000) gate.wait();
    return unopened(place, "in the test");
  }};
};

TEST_F(FileOpenerTest, OpensWhatWasSubmitted) {
  EXPECT_THAT(opener_.take(), IsEmpty());
  ASSERT_TRUE(submit(0, 1) && submit(12345, 2) && submit(0, 3));
  EXPECT_THAT(opened(3), UnorderedElementsAre(1, 2, 3));
}

TEST_F(FileOpenerTest, ACallThatHangsDelaysOnlyItsOwnUser) {
  ASSERT_TRUE(submit(1, 1001) && submit(1, 10) && submit(2, 20) && submit(0, 30));
  EXPECT_THAT(opened(2), UnorderedElementsAre(20, 30));
  release();
  EXPECT_THAT(opened(2), UnorderedElementsAre(1001, 10));
}

TEST_F(FileOpenerTest, ManyUsersWhoseCallsHangLeaveThreadsToRoot) {
  for (std::uint32_t uid = 1; uid <= 2 * FileOpener::kMaxThreads; ++uid) {
    ASSERT_TRUE(submit(uid, 1000 + uid));
  }
  ASSERT_TRUE(submit(0, 1002));
  ASSERT_TRUE(submit(0, 30));
  EXPECT_THAT(opened(1), UnorderedElementsAre(30));
}

TEST_F(FileOpenerTest, QueuesAnEighthForOneUserAndHalfForAll) {
  std::size_t of_one = 0;
  while (submit(1, 1001)) ++of_one;
  EXPECT_GE(of_one, FileOpener::kMaxQueuedOfUser);
  EXPECT_LE(of_one, FileOpener::kMaxQueuedOfUser + 1);  // and the one that hangs
  std::size_t of_users = of_one;
  for (std::uint32_t uid = 2; uid < 100; ++uid) {
    while (submit(uid, 1001)) ++of_users;
  }
  EXPECT_GE(of_users, FileOpener::kMaxQueuedOfUsers);
  EXPECT_LE(of_users, FileOpener::kMaxQueuedOfUsers + FileOpener::kMaxThreadsOfUsers);
  EXPECT_TRUE(submit(0, 1));
}

}  // namespace
}  // namespace profd
