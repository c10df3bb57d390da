// The shares of users in the JIT sources that are followed, and what is counted of them.

#include "collectors/jit/followed_files.h"

#include <fcntl.h>

#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "tests/collectors/jit/runtime.h"

namespace profd::test {
namespace {

class FollowedFilesTest : public testing::Test {
 protected:
  static constexpr std::size_t kMaxEvents = 100;

  void SetUp() override {
    stats_.users = &users_;
    auto parser = Parser::start();
    ASSERT_TRUE(parser) << parser.error().message;
    parser_ = std::move(*parser);
  }

  [[nodiscard]] std::shared_ptr<const JitFile> file_of(std::uint32_t owner, std::uint64_t inode,
                                                       std::string_view bytes) const {
    const std::string path = directory_ / ("jit-" + std::to_string(inode) + ".dump");
    write_file(path, bytes);
    return std::make_shared<const JitFile>(
        JitFile{.id = {.device = 1, .inode = inode, .owner = owner},
                .path = path,
                .fd = std::make_shared<const UniqueFd>(
                    UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)))});
  }
  // Whether the file is followed. It is read at once unless `max_events` is 0.
  bool follow(std::shared_ptr<const JitFile> file, std::size_t max_events) {
    JitScan scan;
    scan.files.push_back(std::move(file));
    files_.follow(scan, *parser_, max_events, events_);
    return !scan.files.empty();
  }
  [[nodiscard]] std::uint64_t refused(JitRefusal reason) const {
    return stats_.refused[static_cast<std::size_t>(reason)];
  }

  PrivateDirectory directory_;
  UserRefusals users_;
  JitStats stats_;
  FollowedFiles files_{stats_, owners_with_subordinates(directory_)};
  std::unique_ptr<Parser> parser_;
  std::vector<JitEvent> events_;
};

TEST_F(FollowedFilesTest, AnOwnerHasAtMostItsShareOfTheFiles) {
  for (std::uint64_t i = 0; i < FollowedFiles::kMaxFilesOfOwner; ++i) {
    const auto subordinate = kSubordinate + static_cast<std::uint32_t>(i);
    ASSERT_TRUE(follow(file_of(i % 2 == 0 ? kOther : subordinate, i, ""), 0)) << i;
  }
  EXPECT_FALSE(follow(file_of(kOther, 10'000, ""), 0));
  EXPECT_EQ(refused(JitRefusal::kOverShare), 1U);
  EXPECT_EQ(
      users_.users(),
      std::vector({StatusInfo::User{.uid = kOther, .refused = {{"jit.refused.over_share", 1}}}}));
  EXPECT_TRUE(follow(file_of(kOther + 1, 10'001, ""), 0));
  EXPECT_TRUE(follow(file_of(0, 10'002, ""), 0));
}

TEST_F(FollowedFilesTest, FilesOfUsersLeaveHalfToRoot) {
  for (std::uint32_t i = 0; i < FollowedFiles::kMaxFilesOfUsers; ++i) {
    ASSERT_TRUE(follow(file_of(1000 + i, i, ""), 0)) << i;
  }
  EXPECT_FALSE(follow(file_of(2000, 10'000, ""), 0));
  EXPECT_EQ(refused(JitRefusal::kQueueFull), 1U);
  EXPECT_TRUE(follow(file_of(0, 10'001, ""), 0));
}

TEST_F(FollowedFilesTest, TheUserWithTheMostFilesLosesOneForAnother) {
  constexpr std::uint64_t kOfEach = FollowedFiles::kMaxFilesOfUsers / 4;
  for (std::uint64_t i = 0; i < FollowedFiles::kMaxFilesOfUsers; ++i) {
    const auto user = static_cast<std::uint32_t>(1000 + i % 4);
    ASSERT_TRUE(follow(file_of(user, i, ""), 0)) << i;
  }
  std::uint64_t others = 0;
  while (others < kOfEach && follow(file_of(2000, 10'000 + others, ""), 0)) ++others;
  EXPECT_NEAR(static_cast<double>(others), FollowedFiles::kMaxFilesOfUsers / 5, 1);
  EXPECT_EQ(files_.size(), FollowedFiles::kMaxFilesOfUsers);
  EXPECT_EQ(refused(JitRefusal::kOverShare), others);
  EXPECT_EQ(refused(JitRefusal::kQueueFull), 1U);
  std::map<std::uint32_t, std::uint64_t> ended;
  for (const JitEvent& event : events_) ++ended[std::get<JitFileEnded>(event).file.owner];
  for (std::uint32_t user = 1000; user < 1004; ++user) {
    EXPECT_NEAR(static_cast<double>(ended[user]), static_cast<double>(others) / 4, 1) << user;
  }
  EXPECT_EQ(ended.size(), 4U) << "none of the user who asked";
}

TEST_F(FollowedFilesTest, ASubordinateUidHasItsUsersTime) {
  ASSERT_TRUE(follow(file_of(kSubordinate, 1, dump_of(1, {.name = "f"})), 0));
  ASSERT_TRUE(follow(file_of(kOther + 1, 2, dump_of(1, {.name = "f"})), 0));
  files_.charge(kOther, 8 * FollowedFiles::kMaxTime);
  files_.read_due(*parser_, kMaxEvents, events_);
  EXPECT_EQ(refused(JitRefusal::kOverShare), 1U);
  EXPECT_EQ(events_.size(), 1U) << "the other user's";
}

TEST_F(FollowedFilesTest, AFileThatWaitsForItsOwnersShareIsCountedOnce) {
  ASSERT_TRUE(follow(file_of(kOther, 1, dump_of(1, {.name = "f"})), 0));
  files_.charge(kOther, 8 * FollowedFiles::kMaxTime);
  for (int second = 0; second < 3; ++second) {
    (void)files_.make_all_due();
    files_.read_due(*parser_, kMaxEvents, events_);
  }
  EXPECT_EQ(refused(JitRefusal::kOverShare), 1U);
  EXPECT_EQ(stats_.bytes_read, 0U);
  ASSERT_TRUE(follow(file_of(kOther, 2, dump_of(1, {.name = "f"})), 0));
  files_.read_due(*parser_, kMaxEvents, events_);
  EXPECT_EQ(refused(JitRefusal::kOverShare), 2U) << "another file";
}

// Each new file would have one part read at once, and a user can make many.
TEST_F(FollowedFilesTest, ANewFileWaitsForItsOwnersShare) {
  files_.charge(kOther, 8 * FollowedFiles::kMaxTime);
  ASSERT_TRUE(follow(file_of(kOther, 1, dump_of(1, {.name = "f"})), kMaxEvents));
  EXPECT_EQ(stats_.bytes_read, 0U);
  ASSERT_TRUE(follow(file_of(0, 2, dump_of(1, {.name = "f"})), kMaxEvents));
  EXPECT_NE(stats_.bytes_read, 0U) << "root's";
  files_.read_due(*parser_, kMaxEvents, events_);
  EXPECT_EQ(refused(JitRefusal::kOverShare), 1U);
}

TEST_F(FollowedFilesTest, ARecordThatClaimsMoreThanTheFileHasCountsAsTheFile) {
  std::string huge = load_of(1, {.name = "f"});
  huge.replace(4, 4, 4, '\xff');  // total_bytes
  const std::string dump = dump_of(1, {.name = "f"}) + huge;
  ASSERT_TRUE(follow(file_of(0, 1, dump), kMaxEvents));
  EXPECT_EQ(stats_.bytes_read, dump.size());
  (void)files_.make_all_due();
  files_.read_due(*parser_, kMaxEvents, events_);
  EXPECT_EQ(stats_.bytes_read, dump.size());
}

}  // namespace
}  // namespace profd::test
