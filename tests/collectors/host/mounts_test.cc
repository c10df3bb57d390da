// What is known of the mount of a file. Needs root and /dev/fuse.

#include "collectors/host/mounts.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "formats/base/unique_fd.h"
#include "tests/collectors/silent_fuse.h"
#include "tests/collectors/users_mounts.h"

namespace profd {
namespace {

namespace fs = std::filesystem;

class MountsTest : public testing::Test {
 protected:
  MountsTest() {
    std::string pattern = (fs::temp_directory_path() / "profd-mounts-XXXXXX").string();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    top_ = pattern;
    for (const char* name : {"lower", "other", "fuse", "overlay"}) {
      fs::create_directory(top_ / name);
    }
    std::ofstream(top_ / "lower/file") << "text";
  }
  ~MountsTest() override { fs::remove_all(top_); }

  static MountFacts facts_of(const std::string& path, std::uint32_t tgid) {
    const UniqueFd fd(::open(path.c_str(), O_PATH | O_CLOEXEC));
    EXPECT_TRUE(fd.valid()) << path;
    return mount_of(fd.get(), tgid);
  }
  static bool bind(const std::string& from, const std::string& to) {
    return ::mount(from.c_str(), to.c_str(), nullptr, MS_BIND, nullptr) == 0;
  }
  [[nodiscard]] std::string at(const std::string& name) const { return top_ / name; }

  fs::path top_;
};

TEST_F(MountsTest, AFileOfTheHostDoesNotHangAndIsAtThePlaceThatRootChose) {
  const MountFacts facts = facts_of(at("lower/file"), 0);
  EXPECT_FALSE(facts.may_hang);
  EXPECT_FALSE(facts.is_of_users);
}

TEST_F(MountsTest, AnOverlayOfRootDoesNotHang) {
  ASSERT_TRUE(test::mount_overlay(at("lower"), at("other"), at("overlay")));
  const MountFacts facts = facts_of(at("overlay/file"), 0);
  ::umount2(at("overlay").c_str(), MNT_DETACH);
  EXPECT_FALSE(facts.may_hang);
  EXPECT_FALSE(facts.is_of_users);
}

TEST_F(MountsTest, AFuseFileSystemMayHang) {
  test::SilentFuse fuse(at("fuse"));
  ASSERT_TRUE(fuse.mounted());
  EXPECT_TRUE(facts_of(fuse.file(), 0).may_hang);
}

TEST_F(MountsTest, WhoMountedAFuseFileSystemIsKnown) {
  {
    test::SilentFuse fuse(at("fuse"));
    ASSERT_TRUE(fuse.mounted());
    EXPECT_TRUE(facts_of(fuse.file(), 0).is_served_by_own);
  }
  test::SilentFuse fuse(at("fuse"), 12345);
  ASSERT_TRUE(fuse.mounted());
  EXPECT_FALSE(facts_of(fuse.file(), 0).is_served_by_own);
}

TEST_F(MountsTest, AnOverlayOfUsersMayHangAndStatfsIsNotAsked) {
  test::SilentFuse fuse(at("fuse"));
  ASSERT_TRUE(fuse.mounted());
  const test::UsersMounts process(
      [&] { return test::mount_overlay(at("fuse"), at("lower"), at("overlay")); });
  ASSERT_TRUE(process.is_ready());
  const UniqueFd fd(::open(process.seen(at("overlay/file")).c_str(), O_PATH | O_CLOEXEC));
  ASSERT_TRUE(fd.valid());
  fuse.fall_silent();
  const MountFacts facts = mount_of(fd.get(), process.tgid());
  EXPECT_TRUE(facts.may_hang);
  EXPECT_TRUE(facts.is_of_users);
}

// Of an overlay that root mounted and a user sees, root chose the layers. What it is in the user's
// namespace cannot be seen.
TEST_F(MountsTest, AnotherFileSystemInANamespaceOfUsersDoesNotHang) {
  const test::UsersMounts process([] { return true; });
  ASSERT_TRUE(process.is_ready());
  const MountFacts facts = facts_of(process.seen(at("lower/file")), process.tgid());
  EXPECT_FALSE(facts.may_hang);
  EXPECT_TRUE(facts.is_of_users);
}

// A process of the host's mounts can have its root in a namespace of users, who pass it a
// descriptor: the mount counts, not the process.
TEST_F(MountsTest, AMountThatNoListHasIsAssumedToBeAUsers) {
  const test::UsersMounts process([] { return true; });
  ASSERT_TRUE(process.is_ready());
  const MountFacts facts =
      facts_of(process.seen(at("lower/file")), static_cast<std::uint32_t>(::getpid()));
  EXPECT_TRUE(facts.may_hang);
  EXPECT_TRUE(facts.is_of_users);
}

// The first mount is before thousands of others in the list, the last one after 5 MB of them.
TEST_F(MountsTest, AMountThatIsFarDownInAHugeListIsAssumedToBeTheWorst) {
  std::string place = at("other");
  while (place.size() < 3000) {
    place += "/" + std::string(200, 'x');
    ASSERT_EQ(::mkdir(place.c_str(), 0755), 0);
  }
  const test::UsersMounts process(
      [&, lower = at("lower"), first = at("fuse"), last = at("overlay")] {
        if (!bind(lower, first)) return false;
        for (std::size_t bytes = 0; bytes < kMountListLimits.bytes; bytes += place.size()) {
          if (!bind(lower, place)) return false;
        }
        return bind(lower, last);
      });
  ASSERT_TRUE(process.is_ready());
  const MountFacts first = facts_of(process.seen(at("fuse/file")), process.tgid());
  EXPECT_FALSE(first.may_hang);
  EXPECT_TRUE(first.is_of_users);
  const MountFacts last = facts_of(process.seen(at("overlay/file")), process.tgid());
  EXPECT_TRUE(last.may_hang);
  EXPECT_TRUE(last.is_of_users);
}

// The kernel goes through all mounts at a place for the path of the last one: 0.5 s for this list
// of 1 MB.
TEST_F(MountsTest, AMountBehindMountsThatTakeTheKernelLongIsAssumedToBeTheWorst) {
  const test::UsersMounts process(
      [&, lower = at("lower"), place = at("other"), last = at("overlay")] {
        for (int i = 0; i < 8000; ++i) {
          if (!bind(lower, place)) return false;
        }
        return bind(lower, last);
      });
  ASSERT_TRUE(process.is_ready());
  const MountFacts last = facts_of(process.seen(at("overlay/file")), process.tgid());
  EXPECT_TRUE(last.may_hang);
  EXPECT_TRUE(last.is_of_users);
}

TEST_F(MountsTest, UsersMakeTheMountsOfAProcessInTheirNamespaceOnly) {
  const test::UsersMounts process([] { return true; });
  ASSERT_TRUE(process.is_ready());
  const auto makes = [](const std::string& name) {
    const UniqueFd directory(::open(("/proc/" + name).c_str(), O_PATH | O_CLOEXEC));
    return mounts_of_users(directory.get());
  };
  EXPECT_TRUE(makes(std::to_string(process.tgid())));
  EXPECT_TRUE(makes("no process"));
  EXPECT_FALSE(makes("self"));
}

}  // namespace
}  // namespace profd
