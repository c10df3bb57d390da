#include "collectors/host/uid_owners.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>

namespace profd {
namespace {

using std::chrono_literals::operator""s;

class UidOwnersTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = "/tmp/uid-owners-XXXXXX";
    ASSERT_NE(::mkdtemp(path.data()), nullptr);
    directory_ = path;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(directory_ / name) << text;
  }

  UidOwners open(std::chrono::seconds interval = 0s) {
    return UidOwners(directory_ / "subuid", directory_ / "passwd", interval);
  }

  std::filesystem::path directory_;
};

TEST_F(UidOwnersTest, ASubordinateUidIsItsUsers) {
  write("passwd", "alice:x:1000:1000::/home/alice:/bin/sh\n");
  write("subuid", "alice:100000:65536\n1001:165536:10\n");
  UidOwners owners = open();
  EXPECT_EQ(owners.owner_of(0), 0U);
  EXPECT_EQ(owners.owner_of(1000), 1000U);
  EXPECT_EQ(owners.owner_of(99'999), 99'999U);
  EXPECT_EQ(owners.owner_of(100'000), 1000U);
  EXPECT_EQ(owners.owner_of(165'535), 1000U);
  EXPECT_EQ(owners.owner_of(165'536), 1001U);
  EXPECT_EQ(owners.owner_of(165'546), 165'546U);
}

TEST_F(UidOwnersTest, ASubordinateUidOfRootsIsItsOwn) {
  write("passwd", "root:x:0:0::/root:/bin/sh\n");
  write("subuid", "root:100000:65536\n1001:165536:10\n");
  UidOwners owners = open();
  EXPECT_EQ(owners.owner_of(100'001), 100'001U);
  EXPECT_EQ(owners.owner_of(165'536), 1001U);
  EXPECT_EQ(owners.owner_of(0), 0U);
}

TEST_F(UidOwnersTest, TheSubordinateUidsOfANameWithoutAUidAreOneUser) {
  write("passwd", "root:x:0:0::/root:/bin/sh\n");
  write("subuid", "bob:100000:65536\ncarol:165536:65536\nbob:231072:65536\n");
  UidOwners owners = open();
  EXPECT_EQ(owners.owner_of(100'000), 100'000U);
  EXPECT_EQ(owners.owner_of(100'001), 100'000U);
  EXPECT_EQ(owners.owner_of(165'535), 100'000U);
  EXPECT_EQ(owners.owner_of(165'537), 165'536U);
  EXPECT_EQ(owners.owner_of(296'607), 100'000U);
  EXPECT_EQ(owners.owner_of(296'608), 296'608U);
}

TEST_F(UidOwnersTest, FollowsChangesOfBothFiles) {
  UidOwners owners = open();
  EXPECT_EQ(owners.owner_of(100'000), 100'000U);
  write("subuid", "alice:100000:65536\n");
  EXPECT_EQ(owners.owner_of(100'000), 100'000U);
  write("passwd", "alice:x:1000:1000::/home/alice:/bin/sh\n");
  EXPECT_EQ(owners.owner_of(100'000), 1000U);
  std::filesystem::remove(directory_ / "subuid");
  EXPECT_EQ(owners.owner_of(100'000), 100'000U);
}

TEST_F(UidOwnersTest, ReadsTheFilesOnceInAnInterval) {
  UidOwners owners = open(3600s);
  EXPECT_EQ(owners.owner_of(100'000), 100'000U);
  write("subuid", "1000:100000:65536\n");
  EXPECT_EQ(owners.owner_of(100'000), 100'000U);
  EXPECT_EQ(open(3600s).owner_of(100'000), 1000U);
}

}  // namespace
}  // namespace profd
