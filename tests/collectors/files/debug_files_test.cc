// Debug files below a root of the test's own. Needs root: only root's files are taken.

#include "collectors/files/debug_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

namespace profd {
namespace {

namespace fs = std::filesystem;

class DebugFilesTest : public testing::Test {
 protected:
  DebugFilesTest() {
    std::string pattern = (fs::temp_directory_path() / "profd-debug-XXXXXX").string();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    fs::permissions(root_, fs::perms(0755));
    by_build_id_ = root_ / ".build-id/ab/cdef.debug";
    by_link_ = root_ / "usr/bin/program.debug";
    source_.build_id = "\xab\xcd\xef";
    source_.debug_link = "program.debug";
    source_.debug_link_crc = 0xcbf43926;  // of "123456789", as CRC-32 is checked everywhere
  }
  ~DebugFilesTest() override { fs::remove_all(root_); }

  static void write(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  [[nodiscard]] std::string found() const {
    const UniqueFd fd = open_debug_file(source_, "/usr/bin/program", root_);
    char text[64] = {};
    if (!fd.valid() || ::pread(fd.get(), text, sizeof text - 1, 0) < 0) return {};
    return text;
  }

  fs::path root_;
  fs::path by_build_id_;
  fs::path by_link_;
  UnwindSource source_;
};

TEST_F(DebugFilesTest, TheBuildIdComesBeforeTheLink) {
  EXPECT_EQ(found(), "");
  write(by_link_, "123456789");
  EXPECT_EQ(found(), "123456789");
  write(by_build_id_, "by build id");
  EXPECT_EQ(found(), "by build id");
}

TEST_F(DebugFilesTest, ALinkMustHaveItsChecksum) {
  write(by_link_, "123456780");
  EXPECT_EQ(found(), "");
}

TEST_F(DebugFilesTest, OnlyRegularFilesOfRootAreOpened) {
  write(by_build_id_, "another's");
  ASSERT_EQ(::chown(by_build_id_.c_str(), 1000, 1000), 0);
  EXPECT_EQ(found(), "");
  fs::remove(by_build_id_);
  ASSERT_EQ(::mkfifo(by_build_id_.c_str(), 0600), 0);
  EXPECT_EQ(found(), "");
}

TEST_F(DebugFilesTest, NoPathLeadsOutOfTheRoot) {
  const fs::path outside = root_.string() + "-outside";
  write(outside, "outside");
  fs::create_directories(by_build_id_.parent_path());
  fs::create_symlink(outside, by_build_id_);
  EXPECT_EQ(found(), "");
  source_.build_id.clear();
  source_.debug_link = "../../../" + outside.filename().string();
  source_.debug_link_crc = 0;
  EXPECT_EQ(found(), "");
  fs::remove(outside);
}

TEST_F(DebugFilesTest, ALinkBelowTheRootIsFollowed) {
  write(root_ / "elsewhere", "linked");
  fs::create_directories(by_build_id_.parent_path());
  fs::create_symlink("../../elsewhere", by_build_id_);
  EXPECT_EQ(found(), "linked");
}

struct AltLinkCase {
  const char* name;
  std::string link;
  bool is_found;
};

class AltFileTest : public DebugFilesTest, public testing::WithParamInterface<AltLinkCase> {
 protected:
  [[nodiscard]] bool finds_file() const {
    return open_alt_file(GetParam().link, "\xab\xcd\xef", root_).valid();
  }
};

TEST_P(AltFileTest, IsFoundInTheDirectoryOfDwzAndByItsBuildIdFirst) {
  EXPECT_FALSE(finds_file());
  write(root_ / ".dwz/x86_64-linux-gnu/coreutils.debug", "alt");
  write(root_ / "usr/secret", "not an alt file");
  EXPECT_EQ(finds_file(), GetParam().is_found);
  write(by_build_id_, "by build id");
  EXPECT_TRUE(finds_file());
}

INSTANTIATE_TEST_SUITE_P(
    DebugFilesTest, AltFileTest,
    testing::Values(
        AltLinkCase{"Absolute", "/usr/lib/debug/.dwz/x86_64-linux-gnu/coreutils.debug", true},
        AltLinkCase{"Relative", "../../../.dwz/x86_64-linux-gnu/coreutils.debug", true},
        AltLinkCase{"FromTheRoot", ".dwz/x86_64-linux-gnu/coreutils.debug", true},
        AltLinkCase{"OutOfTheDirectory", "/usr/lib/debug/.dwz/../../../etc/passwd", false},
        AltLinkCase{"OtherDirectory", "/usr/lib/debug/usr/secret", false},
        AltLinkCase{"PartOfAName", "x.dwz/x86_64-linux-gnu/coreutils.debug", false},
        AltLinkCase{"Empty", "", false}),
    [](const auto& link) { return std::string(link.param.name); });

TEST_F(DebugFilesTest, AnAltFileOfAnotherOwnerIsNotOpened) {
  const fs::path alt = root_ / ".dwz/a.debug";
  write(alt, "another's");
  EXPECT_TRUE(open_alt_file(".dwz/a.debug", "\xab", root_).valid());
  ASSERT_EQ(::chown(alt.c_str(), 1000, 1000), 0);
  EXPECT_FALSE(open_alt_file(".dwz/a.debug", "\xab", root_).valid());
}

// Any user can write a link to it, and chooses what is read there.
TEST_F(DebugFilesTest, AnAltFileThatOnlyRootMayReachIsNotOpened) {
  for (const fs::path& alt : {root_ / ".dwz/private/a.debug", by_build_id_}) {
    write(alt, "secret");
    const auto opened = [&] {
      return open_alt_file(".dwz/private/a.debug", "\xab\xcd\xef", root_).valid();
    };
    EXPECT_TRUE(opened());
    fs::permissions(alt.parent_path(), fs::perms::others_exec, fs::perm_options::remove);
    EXPECT_FALSE(opened());
    fs::remove_all(alt.parent_path());
  }
}

// The reader could not check that it is the file that the link means.
TEST_F(DebugFilesTest, AnAltLinkWithoutBuildIdLeadsNowhere) {
  write(root_ / ".dwz/a.debug", "alt");
  EXPECT_FALSE(open_alt_file(".dwz/a.debug", {}, root_).valid());
}

TEST(HexTest, BytesAreTwoDigitsEach) {
  EXPECT_EQ(to_hex(std::string_view("\x00\xff\x0a", 3)), "00ff0a");
}

}  // namespace
}  // namespace profd
