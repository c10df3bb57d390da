// A result is on the disk before anyone knows of it, in one file with one sync.

#include "daemon/storage/result_writer.h"

#include <fcntl.h>

#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "tests/daemon/storage/fsync_watch.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::size_t kTrailer = 24;

class ResultWriterTest : public testing::Test {
 protected:
  ResultWriter create(ResultAccount account = {}) {
    return ResultWriter::create(results_, std::move(account)).value();
  }
  std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(results_), fs::directory_iterator()));
  }
  Result<ResultIndex> index_of(const std::string& bytes, std::uint64_t max_bytes = 1000) {
    const fs::path path = scratch_.write("file", bytes);
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    Result<ResultIndex> index = read_result_index(file.get(), max_bytes);
    fs::remove(path);
    return index;
  }

  test::ScratchDirectory scratch_;
  fs::path results_ = fs::canonical(scratch_.path());
};

TEST_F(ResultWriterTest, SyncsTheFileOnceAndThenTheName) {
  std::vector<std::string> synced;
  const test::FsyncWatch watch([&](const std::string& path) {
    const std::string state = fs::exists(results_ / "0000000a") ? "+" : "";
    synced.push_back((path == results_ ? "results" : "file") + state);
  });
  ResultWriter writer = create();
  ASSERT_TRUE(writer.add("a.prof", "bytes"));
  ASSERT_TRUE(writer.add("objects/b.so", "bytes"));
  EXPECT_THAT(synced, IsEmpty());
  ASSERT_TRUE(writer.commit("0000000a", "{}"));
  EXPECT_THAT(synced, ElementsAre("file", "results+"));
}

TEST_F(ResultWriterTest, EndsTheFileWithItsIndex) {
  ResultWriter writer = create();
  ASSERT_TRUE(writer.add("a.prof", "first"));
  ASSERT_TRUE(writer.add("b.prof", "second"));
  EXPECT_EQ(writer.read_back("a.prof").value(), "first");
  EXPECT_EQ(writer.read_back("b.prof").value(), "second");
  EXPECT_FALSE(writer.read_back("c.prof"));
  EXPECT_FALSE(writer.add("a.prof", "again"));
  ASSERT_TRUE(writer.commit("0000000a", "index"));
  const std::string bytes = test::read_file(results_ / "0000000a");
  EXPECT_EQ(bytes.substr(0, 16), "firstsecondindex");
  EXPECT_EQ(bytes.size(), 16 + kTrailer);
  EXPECT_EQ(writer.bytes(), bytes.size());
  const auto index = index_of(bytes);
  ASSERT_TRUE(index) << index.error().message;
  EXPECT_EQ(index->text, "index");
  EXPECT_EQ(index->offset, 11U);
  EXPECT_EQ(index->file_bytes, bytes.size());
}

TEST_F(ResultWriterTest, RefusesAFileWithoutAWholeIndex) {
  ResultWriter writer = create();
  ASSERT_TRUE(writer.add("a.prof", "first"));
  ASSERT_TRUE(writer.commit("0000000a", "index"));
  const std::string bytes = test::read_file(results_ / "0000000a");
  ASSERT_TRUE(index_of(bytes));
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    EXPECT_FALSE(index_of(bytes.substr(0, cut))) << cut;
  }
  for (std::size_t at = bytes.size() - kTrailer; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x80);
    EXPECT_FALSE(index_of(damaged)) << at;
  }
  EXPECT_EQ(index_of(bytes, 4).error().code, ErrorCode::kTooLarge);
}

TEST_F(ResultWriterTest, ADestroyedWriterLeavesNothing) {
  {
    ResultWriter writer = create();
    ASSERT_TRUE(writer.add("a.prof", "bytes"));
    EXPECT_EQ(entries(), 1U);
  }
  EXPECT_EQ(entries(), 0U);
}

TEST_F(ResultWriterTest, StopsAtTheLimitOfItsAccountAndGivesItsBytesBack) {
  ResultQuota quota;
  quota.set_max_bytes(8000);  // 1000 for one user
  {
    ResultWriter writer = create(quota.account_of(7));
    ASSERT_TRUE(writer.add("a", std::string(900, 'x')));
    EXPECT_EQ(quota.bytes(), 900U);
    EXPECT_EQ(writer.add("b", std::string(101, 'x')).error().code, ErrorCode::kTooLarge);
    EXPECT_EQ(quota.bytes(), 900U);
    EXPECT_EQ(quota.refused(), 1U);
    EXPECT_EQ(writer.commit("0000000a", std::string(90, 'i')).error().code, ErrorCode::kTooLarge);
  }
  EXPECT_EQ(quota.bytes(), 0U);
  EXPECT_EQ(entries(), 0U);
  ResultWriter writer = create(quota.account_of(7));
  ASSERT_TRUE(writer.add("a", std::string(900, 'x')));
  ASSERT_TRUE(writer.commit("0000000a", std::string(76, 'i')));
  EXPECT_EQ(quota.bytes(), 1000U);
}

TEST(ResultQuotaTest, UnprivilegedUsersTogetherHaveHalfAndOneAnEighth) {
  UserRefusals refusals;
  ResultQuota quota(&refusals);
  quota.set_max_bytes(8000);
  for (uid_t user = 1; user <= 4; ++user) {
    ResultAccount account = quota.account_of(user);
    EXPECT_FALSE(account.charge(1001)) << user;
    EXPECT_TRUE(account.charge(1000)) << user;
    EXPECT_FALSE(account.charge(1)) << user;
  }
  EXPECT_FALSE(quota.account_of(5).charge(1)) << "all of them have their half";
  ResultAccount root = quota.account_of(std::nullopt);
  EXPECT_TRUE(root.charge(4000));
  EXPECT_FALSE(root.charge(1));
  quota.account_of(2).give_back(1000);
  EXPECT_TRUE(quota.account_of(5).charge(1000));
  EXPECT_EQ(quota.bytes(), 8000U);
  EXPECT_EQ(quota.refused(), 10U);
  const auto users = refusals.users();
  ASSERT_EQ(users.size(), 5U) << "root is not counted";
  EXPECT_EQ(users[0], (StatusInfo::User{.uid = 1, .refused = {{"results_refused", 2}}}));
}

// A disk of 4,000 bytes for results and other files.
TEST(ResultQuotaTest, OnAFullDiskUsersLeaveMostToOthers) {
  ResultQuota quota;
  ASSERT_TRUE(quota.account_of(1).charge(100, 4000));
  EXPECT_FALSE(quota.account_of(1).charge(401, 3900)) << "an eighth is 500";
  EXPECT_TRUE(quota.account_of(1).charge(400, 3900));
  EXPECT_FALSE(quota.account_of(2).charge(501, 3500));
  EXPECT_TRUE(quota.account_of(2).charge(500, 3500));
  EXPECT_TRUE(quota.account_of(3).charge(500, 3000));
  EXPECT_TRUE(quota.account_of(4).charge(500, 2500));
  EXPECT_FALSE(quota.account_of(5).charge(1, 2000)) << "half of the disk stays free";
  EXPECT_TRUE(quota.account_of(std::nullopt).charge(2000, 2000));
  EXPECT_FALSE(quota.account_of(5).charge(1, 0));
}

TEST(ResultQuotaTest, AUserHasAtMost64MiB) {
  ResultQuota quota;
  EXPECT_FALSE(quota.account_of(7).charge((std::uint64_t{64} << 20) + 1));
  EXPECT_TRUE(quota.account_of(7).charge(std::uint64_t{64} << 20));
}

}  // namespace
}  // namespace profd
