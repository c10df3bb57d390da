// Needs root and /dev/fuse.

#include "collectors/host/find_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/collectors/forked.h"
#include "tests/collectors/silent_fuse.h"
#include "tests/collectors/users_mounts.h"
#include "tests/collectors/without_server.h"

namespace profd {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr uid_t kUser = 12345;
constexpr const char* kRefusal = "on a file system of another user";

class FindFileTest : public testing::Test {
 protected:
  FindFileTest() {
    std::string pattern = (fs::temp_directory_path() / "profd-find-XXXXXX").string();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    top_ = pattern;
    fs::permissions(top_, fs::perms(0755));
    for (const char* name : {"lower", "fuse", "overlay"}) fs::create_directory(top_ / name);
    std::ofstream(top_ / "lower/file") << "text";
  }
  ~FindFileTest() override {
    fuse_.reset();
    fs::remove_all(top_);
  }

  [[nodiscard]] std::string at(const std::string& name) const { return top_ / name; }
  void mount_fuse(uid_t user) {
    fuse_.emplace(at("fuse"), user);
    ASSERT_TRUE(fuse_->mounted());
  }
  // "found", or the error.
  std::string outcome_of(const std::string& path) {
    return test::result_without_server(fuse_, [&path] {
      const auto file = open_regular_file(path);
      return file ? "found" : file.error().message;
    });
  }

  fs::path top_;
  std::optional<test::SilentFuse> fuse_;
};

TEST_F(FindFileTest, RootFindsWhatOpenFinds) {
  fs::create_directory_symlink("lower", top_ / "link");
  fs::create_symlink(top_ / "link/../lower/./file", top_ / "other");
  const UniqueFd deleted(::open(at("gone").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  fs::remove(top_ / "gone");
  const std::string number = std::to_string(deleted.get());
  const UniqueFd memfd(::memfd_create("test", MFD_CLOEXEC));
  for (const std::string& path :
       {std::string("/"), std::string("."), std::string(".."), std::string("/.."), at("lower"),
        at("lower/"), at("lower//file"), at("./link/../lower/file"), at("other"), at("link"),
        fs::relative(top_ / "other").string(), std::string("/proc/self/exe"),
        std::string("/proc/self/status"), std::string("/proc/self/root/../proc/self/exe"),
        "/proc/self/fd/" + number, "/dev/fd/" + number,
        "/proc/self/fd/" + std::to_string(memfd.get()), "/proc/self/cwd/" + at("other")}) {
    struct stat wanted {};
    const int error = ::stat(path.c_str(), &wanted) == 0 ? 0 : errno;
    const auto found = find_file(path);
    ASSERT_EQ(found.has_value(), error == 0) << path;
    if (!found) continue;
    struct stat info {};
    ASSERT_EQ(::fstat(found->get(), &info), 0) << path;
    EXPECT_EQ(std::pair(info.st_dev, info.st_ino), std::pair(wanted.st_dev, wanted.st_ino)) << path;
  }
}

TEST_F(FindFileTest, RootFindsNothingWhereOpenFindsNothing) {
  fs::create_symlink("loop", top_ / "loop");
  fs::create_symlink("none", top_ / "dangling");
  for (const std::string& path : {std::string(), at("none"), at("lower/file/x"), at("loop"),
                                  at("dangling"), std::string("/proc/self/fd/999999")}) {
    EXPECT_FALSE(find_file(path)) << path;
  }
  const auto none = find_file(at("none"));
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
}

TEST_F(FindFileTest, RootAsksNoFuseFileSystemOfAUser) {
  mount_fuse(kUser);
  fs::create_symlink(fuse_->file(), top_ / "link");
  const UniqueFd opened(::open(fuse_->file().c_str(), O_PATH | O_CLOEXEC));
  ASSERT_TRUE(opened.valid());
  fuse_->fall_silent();
  for (const std::string& path : {fuse_->file(), at("fuse/none"), at("fuse/file/../.."), at("fuse"),
                                  at("link"), "/proc/self/fd/" + std::to_string(opened.get())}) {
    EXPECT_THAT(outcome_of(path), HasSubstr(kRefusal)) << path;
  }
  EXPECT_EQ(outcome_of(at("fuse/../lower/file")), "found") << "it is not asked for ..";
}

// Such a mount is in no list, as that of memfds, whose names look so.
TEST_F(FindFileTest, RootAsksNoFuseFileSystemThatIsMountedNowhere) {
  mount_fuse(kUser);
  const UniqueFd opened(::open(at("fuse/memfd:x (deleted)").c_str(), O_PATH | O_CLOEXEC));
  ASSERT_TRUE(opened.valid());
  ASSERT_EQ(::umount2(at("fuse").c_str(), MNT_DETACH), 0);
  fuse_->fall_silent();
  EXPECT_THAT(outcome_of("/proc/self/fd/" + std::to_string(opened.get())), HasSubstr(kRefusal));
}

TEST_F(FindFileTest, RootAsksAFuseFileSystemOfItsOwn) {
  mount_fuse(0);
  EXPECT_EQ(outcome_of(fuse_->file()), "found");
}

TEST_F(FindFileTest, AUserAsksAnyFuseFileSystem) {
  for (const uid_t user : {kUser, kUser + 1}) {
    mount_fuse(user);
    const pid_t child = test::fork_into([this] {
      return ::setgid(kUser) == 0 && ::setuid(kUser) == 0 && open_regular_file(fuse_->file()) ? 0
                                                                                              : 1;
    });
    EXPECT_EQ(test::end_of(child), 0);
    fuse_.reset();
  }
}

// A process in a mount namespace of a user may have everything on an overlay of a FUSE file system.
TEST_F(FindFileTest, RootAsksNoOverlayOfAUser) {
  mount_fuse(0);
  const test::UsersMounts process(
      [&] { return test::mount_overlay(at("fuse"), at("lower"), at("overlay")); });
  ASSERT_TRUE(process.is_ready());
  fuse_->fall_silent();
  EXPECT_THAT(outcome_of(process.seen(at("overlay/file"))), HasSubstr(kRefusal));
  EXPECT_EQ(outcome_of(process.seen(at("lower/file"))), "found");
}

// As fs.protected_symlinks has it, which the walk would lose.
TEST_F(FindFileTest, AUsersLinkInASharedDirectoryLeadsRootNowhere) {
  fs::create_symlink(top_ / "lower/file", top_ / "overlay/link");
  const std::string link = at("overlay/link");
  ASSERT_EQ(::lchown(link.c_str(), kUser, kUser), 0);
  EXPECT_TRUE(find_file(link));
  fs::permissions(top_ / "overlay", fs::perms(01777));
  const auto found = find_file(link);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kPermissionDenied);
  ASSERT_EQ(::lchown(link.c_str(), 0, 0), 0);
  EXPECT_TRUE(find_file(link));
}

TEST_F(FindFileTest, OnlyARegularFileIsOpened) {
  ASSERT_EQ(::mkfifo(at("fifo").c_str(), 0600), 0);
  int pipe[2] = {-1, -1};
  ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
  const UniqueFd read_end(pipe[0]);
  const UniqueFd write_end(pipe[1]);
  // The kernel's files in /proc and /sys look regular.
  for (const std::string& path :
       {at("fifo"), at("lower"), std::string("/dev/null"), std::string("/proc/kmsg"),
        std::string("/proc/self/status"), std::string("/proc/self/ns/mnt"),
        std::string("/sys/kernel/uevent_seqnum"), "/proc/self/fd/" + std::to_string(pipe[0])}) {
    const auto opened = open_regular_file(path);
    ASSERT_FALSE(opened) << path;
    EXPECT_EQ(opened.error().code, ErrorCode::kInvalidArgument) << path;
  }
}

}  // namespace
}  // namespace profd
