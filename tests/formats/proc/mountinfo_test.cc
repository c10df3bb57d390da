#include "formats/proc/mountinfo.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/base/unique_fd.h"
#include "formats/base/whole_file.h"

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::size_t kMaxBytes = std::size_t{1} << 20;
constexpr MountListLimits kLimits{.bytes = kMaxBytes, .cpu_time = std::chrono::hours(1)};

UniqueFd list_of(const std::string& text) {
  UniqueFd fd(::memfd_create("mountinfo", MFD_CLOEXEC));
  EXPECT_TRUE(write_all(fd.get(), text));
  EXPECT_EQ(::lseek(fd.get(), 0, SEEK_SET), 0);
  return fd;
}

std::vector<Mount> read_mounts(const std::string& text) {
  std::vector<Mount> mounts;
  visit_mounts(list_of(text).get(), kLimits, [&mounts](const Mount& mount) {
    mounts.push_back(mount);
    return true;
  });
  return mounts;
}

// A line of this many bytes, with the line feed, for the mount of an ext4 file system.
std::string line_of(std::uint64_t id, std::size_t bytes) {
  const std::string begin = std::to_string(id) + " 1 0:1 / /";
  const std::string end = " rw - ext4 /dev/root rw\n";
  return begin + std::string(bytes - begin.size() - end.size(), 'x') + end;
}

TEST(Mountinfo, ReadsMountsWithAnyNumberOfOptionalFields) {
  EXPECT_THAT(
      read_mounts("36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n"
                  "24 29 0:22 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
                  "25 29 0:23 / / rw shared:1 master:2 propagate_from:3 - overlay overlay rw\n"),
      ElementsAre(Mount{36, "/mnt2", "ext3", 98U << 20}, Mount{24, "/sys/fs/cgroup", "cgroup2", 22},
                  Mount{25, "/", "overlay", 23}));
}

// A user can choose the mount point and the source of a FUSE mount. The kernel escapes blanks, line
// feeds and backslashes in both.
TEST(Mountinfo, ReadsHostilePlacesAndSources) {
  EXPECT_THAT(
      read_mounts("7 1 0:1 / /tmp/a\\040-\\040ext4\\012b\\134 rw - fuse.sshfs -\\040ext4 rw\n"
                  "8 1 0:1 / - rw - fuse - rw\n"
                  "9 1 0:1 / /b rw - tmpfs  rw\n"),
      ElementsAre(Mount{7, "/tmp/a - ext4\nb\\", "fuse.sshfs", 1}, Mount{8, "-", "fuse", 1},
                  Mount{9, "/b", "tmpfs", 1}));
}

// The source may look like options, and be empty.
TEST(Mountinfo, ReadsWhoMountedAFuseFileSystem) {
  const auto fuse_user = [](const std::string& end) {
    const auto mount = parse_mountinfo_line("7 1 0:1 / /a rw - " + end);
    EXPECT_TRUE(mount) << end;
    return mount ? mount->fuse_user : std::nullopt;
  };
  EXPECT_EQ(fuse_user("fuse.sshfs a:/ rw,user_id=1000,group_id=0,allow_other"), 1000U);
  EXPECT_EQ(fuse_user("fuse ,user_id=7 rw,user_id=0,group_id=0"), 0U);
  for (const char* end :
       {"fuse x", "fuse x rw", "fuse  rw,user_id=0", "fuse x rw,user_id=", "fuse x rw,user_id=-1",
        "fuse x rw,user_id=4294967296", "ext4 x rw,user_id=0"}) {
    EXPECT_EQ(fuse_user(end), std::nullopt) << end;
  }
}

TEST(Mountinfo, LeavesOutLinesOfAnotherForm) {
  for (const char* line : {"", "\n", "36", "36 35 98:0 /mnt1 /mnt2", "36 35 98:0 /mnt1 /mnt2 rw",
                           "36 35 98:0 /mnt1 /mnt2 rw -", "36 35 98:0 /mnt1 /mnt2 rw - ",
                           "x 35 98:0 / / rw - ext3 a rw", "36 35 98 / / rw - ext3 a rw",
                           "36 35 98:0 /mnt1 /mnt2 rw ext3 /dev/root rw"}) {
    EXPECT_FALSE(parse_mountinfo_line(line)) << line;
    EXPECT_THAT(read_mounts(line + std::string("\n")), IsEmpty()) << line;
  }
  EXPECT_THAT(read_mounts("nonsense\n24 29 0:22 / /a rw - proc proc rw\n"),
              ElementsAre(Mount{24, "/a", "proc", 22}));
}

TEST(Mountinfo, ReadsEveryMountOfItsOwnProcess) {
  const std::string text = read_whole_file("/proc/self/mountinfo").value();
  const std::vector<Mount> mounts = read_mounts(text);
  EXPECT_EQ(static_cast<long>(mounts.size()), std::ranges::count(text, '\n'));
  EXPECT_NE(std::ranges::find(mounts, "/proc", &Mount::mount_point), mounts.end());
}

TEST(Mountinfo, ReadsLinesAcrossTheEndsOfItsBuffer) {
  std::string text;
  for (std::uint64_t id = 0; id < 1000; ++id) text += line_of(id, 100 + id % 7);
  const std::vector<Mount> mounts = read_mounts(text);
  ASSERT_EQ(mounts.size(), 1000U);
  EXPECT_EQ(mounts.back().id, 999U);
  EXPECT_EQ(mounts.back().file_system, "ext4");
}

TEST(Mountinfo, ReadsNoMoreThanTheMaximumOfAHugeList) {
  std::string text;
  for (std::uint64_t id = 0; id < 2000; ++id) text += line_of(id, 4000);
  const UniqueFd list = list_of(text);
  std::size_t mounts = 0;
  visit_mounts(list.get(), kLimits, [&mounts](const Mount& /*mount*/) {
    ++mounts;
    return true;
  });
  EXPECT_EQ(::lseek(list.get(), 0, SEEK_CUR), off_t{kMaxBytes});
  EXPECT_EQ(mounts, kMaxBytes / 4000) << "the line at the maximum is not whole";
}

TEST(Mountinfo, StopsAtTheWantedMount) {
  std::string text;
  for (std::uint64_t id = 0; id < 200; ++id) text += line_of(id, 4000);
  const UniqueFd list = list_of(text);
  std::uint64_t last = 0;
  visit_mounts(list.get(), kLimits, [&last](const Mount& mount) {
    last = mount.id;
    return mount.id != 3;
  });
  EXPECT_EQ(last, 3U);
  EXPECT_EQ(::lseek(list.get(), 0, SEEK_CUR), 65'536) << "one read";
}

TEST(Mountinfo, ReadsNothingMoreWhenTheTimeIsUsedUp) {
  std::string text;
  for (std::uint64_t id = 0; id < 200; ++id) text += line_of(id, 4000);
  const UniqueFd list = list_of(text);
  visit_mounts(list.get(), {.bytes = kMaxBytes, .cpu_time = std::chrono::milliseconds(5)},
               [](const Mount& mount) {
                 const std::clock_t start = std::clock();
                 while (mount.id == 1 && std::clock() - start < CLOCKS_PER_SEC / 50) continue;
                 return true;
               });
  EXPECT_EQ(::lseek(list.get(), 0, SEEK_CUR), 65'536) << "one read";
}

// An overlay of many layers has them all in its options.
TEST(Mountinfo, ReadsTheBeginOfAHugeLine) {
  const std::string layers(300'000, 'x');
  EXPECT_THAT(read_mounts("7 1 0:1 / /a rw - overlay overlay rw,lowerdir=" + layers +
                          "\n8 1 0:1 / /b rw - proc proc rw\n"),
              ElementsAre(Mount{7, "/a", "overlay", 1}, Mount{8, "/b", "proc", 1}));
}

// A user chooses the length of a path, so that the name of the file system would be cut to "fus".
TEST(Mountinfo, ACutLineHasNoPartOfAFileSystemsName) {
  for (std::size_t path = 65'480; path < 65'560; ++path) {
    for (const Mount& mount : read_mounts("7 1 0:1 / /" + std::string(path, 'x') +
                                          " rw - fuse.sshfs source rw,user_id=1000\n")) {
      EXPECT_EQ(mount.file_system, "fuse.sshfs") << path;
    }
  }
}

TEST(Mountinfo, KnowsFileSystemsThatAProcessServes) {
  for (const char* name : {"fuse", "fuseblk", "fuse.sshfs", "fuseblk.ntfs"}) {
    EXPECT_TRUE(is_fuse(name)) << name;
  }
  for (const char* name : {"ext4", "overlay", "tmpfs", "proc", "nfs4", ""}) {
    EXPECT_FALSE(is_fuse(name)) << name;
  }
}

TEST(Mountinfo, KnowsOverlays) {
  EXPECT_TRUE(is_overlay("overlay"));
  for (const char* name : {"ext4", "fuse.fuse-overlayfs", "tmpfs", ""}) {
    EXPECT_FALSE(is_overlay(name)) << name;
  }
}

}  // namespace
}  // namespace profd
