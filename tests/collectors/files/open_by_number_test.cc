// Files by the number and generation of their inodes, on the file systems that this host has.

#include "collectors/files/open_by_number.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "collectors/files/mapped_file.h"
#include "tests/collectors/file_generation.h"

namespace profd {
namespace {

namespace fs = std::filesystem;

// In /dev/shm, which is tmpfs, or in the directory of the build, which is mostly on a disk.
class OpenByNumberTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::string pattern = fs::absolute(GetParam()) / "by_number_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    // In a chroot there may be no other mount of its file system.
    ASSERT_EQ(::mount(pattern.c_str(), pattern.c_str(), nullptr, MS_BIND, nullptr), 0);
    std::ofstream(file_path()) << "content";
    const auto generation = test::generation_of(file_path());
    if (!generation)
      GTEST_SKIP() << "NOT TESTED: " << directory_ << " is not on ext4, xfs or tmpfs";
    struct stat status {};
    ASSERT_EQ(::stat(file_path().c_str(), &status), 0);
    key_ = file_key_of(status);
    key_.generation = *generation;
  }
  void TearDown() override {
    ::umount(directory_.c_str());
    fs::remove_all(directory_);
  }

  [[nodiscard]] std::string file_path() const { return directory_ / "file"; }

  fs::path directory_;
  FileKey key_;
};

INSTANTIATE_TEST_SUITE_P(Directories, OpenByNumberTest, testing::Values("/dev/shm", "."));

TEST_P(OpenByNumberTest, TheFileIsFound) {
  const UniqueFd place = place_by_number(key_);
  ASSERT_TRUE(place.valid());
  struct stat status {};
  ASSERT_EQ(::fstat(place.get(), &status), 0);
  EXPECT_EQ(status.st_ino, key_.inode);
  EXPECT_EQ(file_key_of(status).device, key_.device);
}

TEST_P(OpenByNumberTest, AFileOfAnotherGenerationIsNotFound) {
  ++key_.generation;
  EXPECT_FALSE(place_by_number(key_).valid());
}

TEST_P(OpenByNumberTest, AFileOnADeviceThatIsNotMountedIsNotFound) {
  key_.device = device_of_key(0xfff, 0xfffff);
  EXPECT_FALSE(place_by_number(key_).valid());
}

}  // namespace
}  // namespace profd
