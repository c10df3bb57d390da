#include "formats/proc/mountinfo.h"

#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/base/whole_file.h"

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Mountinfo, ReadsMountsWithAnyNumberOfOptionalFields) {
  EXPECT_THAT(
      parse_mountinfo(
          "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n"
          "24 29 0:22 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
          "25 29 0:23 / / rw shared:1 master:2 propagate_from:3 - overlay overlay rw\n"),
      ElementsAre(Mount{36, "/mnt2", "ext3", 98U << 20}, Mount{24, "/sys/fs/cgroup", "cgroup2", 22},
                  Mount{25, "/", "overlay", 23}));
}

// A user can choose the mount point and the source of a FUSE mount. The kernel escapes blanks, line
// feeds and backslashes in both.
TEST(Mountinfo, ReadsHostilePlacesAndSources) {
  EXPECT_THAT(
      parse_mountinfo("7 1 0:1 / /tmp/a\\040-\\040ext4\\012b\\134 rw - fuse.sshfs -\\040ext4 rw\n"
                      "8 1 0:1 / - rw - fuse - rw\n"
                      "9 1 0:1 / /b rw - tmpfs  rw\n"),
      ElementsAre(Mount{7, "/tmp/a - ext4\nb\\", "fuse.sshfs", 1}, Mount{8, "-", "fuse", 1},
                  Mount{9, "/b", "tmpfs", 1}));
}

TEST(Mountinfo, LeavesOutLinesOfAnotherForm) {
  for (const char* line : {"", "\n", "36", "36 35 98:0 /mnt1 /mnt2", "36 35 98:0 /mnt1 /mnt2 rw",
                           "36 35 98:0 /mnt1 /mnt2 rw -", "36 35 98:0 /mnt1 /mnt2 rw - ",
                           "x 35 98:0 / / rw - ext3 a rw", "36 35 98 / / rw - ext3 a rw",
                           "36 35 98:0 /mnt1 /mnt2 rw ext3 /dev/root rw"}) {
    EXPECT_THAT(parse_mountinfo(line), IsEmpty()) << line;
  }
  EXPECT_THAT(parse_mountinfo("nonsense\n24 29 0:22 / /a rw - proc proc rw"),
              ElementsAre(Mount{24, "/a", "proc", 22}));
}

TEST(Mountinfo, ReadsEveryMountOfItsOwnProcess) {
  const std::string text = read_whole_file("/proc/self/mountinfo").value();
  const std::vector<Mount> mounts = parse_mountinfo(text);
  EXPECT_EQ(static_cast<long>(mounts.size()), std::ranges::count(text, '\n'));
  EXPECT_NE(std::ranges::find(mounts, "/proc", &Mount::mount_point), mounts.end());
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
