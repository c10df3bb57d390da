#include "collectors/host/user_refusals.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

namespace profd {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

using User = StatusInfo::User;

class UserRefusalsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = "/tmp/user-refusals-XXXXXX";
    ASSERT_NE(::mkdtemp(path.data()), nullptr);
    directory_ = path;
    std::ofstream(directory_ / "subuid") << "1000:100000:65536\n0:200000:65536\n";
    refusals_.emplace(UidOwners(directory_ / "subuid", directory_ / "passwd"));
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::filesystem::path directory_;
  std::optional<UserRefusals> refusals_;
};

TEST_F(UserRefusalsTest, CountsByUserAndReason) {
  EXPECT_THAT(refusals_->users(), IsEmpty());
  refusals_->add(1001, "b");
  refusals_->add(1000, "a", 5);
  refusals_->add(1001, "a", 0);
  refusals_->add(1001, "b", 2);
  EXPECT_THAT(refusals_->users(), ElementsAre(User{.uid = 1000, .refused = {{"a", 5}}},
                                              User{.uid = 1001, .refused = {{"b", 3}}}));
}

TEST_F(UserRefusalsTest, ASubordinateUidIsItsUser) {
  refusals_->add(100'000, "a");
  refusals_->add(165'535, "a");
  refusals_->add(1000, "a");
  EXPECT_THAT(refusals_->users(), ElementsAre(User{.uid = 1000, .refused = {{"a", 3}}}));
}

TEST_F(UserRefusalsTest, ASubordinateUidOfRootsIsItsOwn) {
  refusals_->add(200'000, "a");
  EXPECT_THAT(refusals_->users(), ElementsAre(User{.uid = 200'000, .refused = {{"a", 1}}}));
}

TEST_F(UserRefusalsTest, RootAndUnknownUsersAreNotCounted) {
  refusals_->add(0, "a");
  refusals_->add(UserRefusals::kUnknownUser, "a");
  EXPECT_THAT(refusals_->users(), IsEmpty());
}

TEST_F(UserRefusalsTest, AUserHasSoManyReasonsAndTheRestAreOne) {
  for (std::size_t i = 0; i < UserRefusals::kMaxReasons + 10; ++i) {
    refusals_->add(1000, "reason " + std::to_string(i));
  }
  refusals_->add(1000, "reason 0");
  const std::vector<User> users = refusals_->users();
  ASSERT_THAT(users, SizeIs(1));
  const CountsByReason& refused = users[0].refused;
  EXPECT_THAT(refused, SizeIs(UserRefusals::kMaxReasons));
  EXPECT_EQ(refused.at("reason 0"), 2U);
  EXPECT_EQ(refused.at(std::string(UserRefusals::kOtherReasons)), 11U);
  EXPECT_EQ(sum_of(refused), UserRefusals::kMaxReasons + 11);
}

TEST_F(UserRefusalsTest, TheUserRefusedTheLongestAgoIsReplacedAndItsCountsStay) {
  constexpr uid_t kFirst = 2000;
  for (uid_t i = 0; i < UserRefusals::kMaxUsers; ++i) refusals_->add(kFirst + i, "a");
  refusals_->add(kFirst, "a");
  EXPECT_THAT(refusals_->users(), SizeIs(UserRefusals::kMaxUsers));
  refusals_->add(1999, "b");
  refusals_->add(1998, "b");
  const std::vector<User> users = refusals_->users();
  ASSERT_THAT(users, SizeIs(UserRefusals::kMaxUsers + 1));
  EXPECT_EQ(users[0].uid, 1998U);
  EXPECT_EQ(users[2], (User{.uid = kFirst, .refused = {{"a", 2}}}));
  EXPECT_EQ(users[3].uid, kFirst + 3) << "the two after the first are replaced";
  EXPECT_EQ(users.back(), (User{.uid = std::nullopt, .refused = {{"a", 2}}}));
}

TEST_F(UserRefusalsTest, ThreadsMayCountAtTheSameTime) {
  constexpr std::uint64_t kTimes = 1000;
  std::vector<std::jthread> threads;
  for (uid_t user = 1000; user < 1002; ++user) {
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([this, user] {
        for (std::uint64_t n = 0; n < kTimes; ++n) refusals_->add(user, "a");
      });
    }
  }
  threads.clear();
  EXPECT_THAT(refusals_->users(), ElementsAre(User{.uid = 1000, .refused = {{"a", 2 * kTimes}}},
                                              User{.uid = 1001, .refused = {{"a", 2 * kTimes}}}));
}

}  // namespace
}  // namespace profd
