// Debug files in the root of a process, which the process's user may have filled with anything, and
// in the cache. Needs root, for files of other owners.

#include "collectors/files/debug_file_places.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "tests/collectors/silent_fuse.h"
#include "tests/collectors/users_mounts.h"

namespace profd {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uid_t kUser = 1000;
constexpr uid_t kOtherUser = 1001;

class DebugFilePlacesTest : public testing::Test {
 protected:
  DebugFilePlacesTest() {
    std::string pattern = (fs::temp_directory_path() / "profd-places-XXXXXX").string();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    top_ = pattern;
    root_ = top_ / "root";
    fs::create_directories(root_);
    by_id_ = root_ / "usr/lib/debug/.build-id/ab/cdef.debug";
    fs::create_directories(by_id_.parent_path());
    query_ = {.build_id = "\xab\xcd\xef",
              .debug_link = "program.debug",
              .path = "/opt/app/program",
              .owner = kUser};
  }
  ~DebugFilePlacesTest() override { fs::remove_all(top_); }

  static void write(const fs::path& path, const std::string& text, uid_t owner = 0) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
    ASSERT_EQ(::chown(path.c_str(), owner, owner), 0);
  }
  static std::string shown(const DebugFileAt& file) {
    const std::string place(text_of(file.place));
    if (file.refusal) return place + ": " + std::string(text_of(*file.refusal));
    char text[64] = {};
    EXPECT_GE(::pread(file.fd.get(), text, sizeof text - 1, 0), 0);
    return place + " " + text;
  }
  [[nodiscard]] std::vector<std::string> in_root() const {
    const UniqueFd root(::open(root_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    std::vector<std::string> all;
    for (const DebugFileAt& file : open_in_root(root.get(), 0, query_)) all.push_back(shown(file));
    return all;
  }
  [[nodiscard]] std::vector<std::string> in_root_of(std::uint32_t tgid) const {
    std::vector<std::string> all;
    for (const DebugFileAt& file : open_in_root_of(tgid, query_)) all.push_back(shown(file));
    return all;
  }
  [[nodiscard]] std::string in_cache() const {
    const auto file = open_in_cache(query_, (root_ / "usr/lib/debug").string());
    return file ? shown(*file) : "none";
  }

  fs::path top_;
  fs::path root_;
  fs::path by_id_;
  DebugFileQuery query_;
};

TEST_F(DebugFilePlacesTest, TheBuildIdComesFirstAndThenTheThreePlacesOfALink) {
  EXPECT_THAT(in_root(), IsEmpty());
  write(root_ / "usr/lib/debug/opt/app/program.debug", "4");
  write(root_ / "opt/app/.debug/program.debug", "3");
  write(root_ / "opt/app/program.debug", "2");
  write(by_id_, "1");
  EXPECT_THAT(in_root(), ElementsAre("process 1", "link 2", "link 3", "link 4"));
}

TEST_F(DebugFilePlacesTest, AFileOfAThirdUserIsRefused) {
  write(by_id_, "of root", 0);
  EXPECT_THAT(in_root(), ElementsAre("process of root"));
  write(by_id_, "of the owner", kUser);
  EXPECT_THAT(in_root(), ElementsAre("process of the owner"));
  write(by_id_, "of another", kOtherUser);
  EXPECT_THAT(in_root(), ElementsAre("process: foreign_owner"));
  query_.owner = 0;
  write(by_id_, "of a user", kUser);
  EXPECT_THAT(in_root(), ElementsAre("process: foreign_owner"));
}

// Also one that stays in the root: behind it may lie a directory that only root may enter.
TEST_F(DebugFilePlacesTest, ASymbolicLinkIsNotFollowed) {
  write(root_ / "elsewhere", "linked");
  fs::create_symlink("/elsewhere", by_id_);
  fs::create_directories(root_ / "opt/app");
  fs::create_symlink("../../elsewhere", root_ / "opt/app/program.debug");
  EXPECT_THAT(in_root(), ElementsAre("process: symbolic_link", "link: symbolic_link"));
  fs::remove_all(root_ / "usr");
  fs::create_directories(root_ / "proc");
  fs::create_symlink("/proc/self/root/usr", root_ / "usr");
  EXPECT_THAT(in_root(), Each(HasSubstr(": symbolic_link")));
}

TEST_F(DebugFilePlacesTest, WhatOnlyRootMayReadIsRefused) {
  write(by_id_, "secret");
  fs::permissions(by_id_, fs::perms::others_read, fs::perm_options::remove);
  EXPECT_THAT(in_root(), ElementsAre("process: not_readable"));
  EXPECT_FALSE(open_in_host(query_, (root_ / "usr/lib/debug").string()));
  query_.owner = 0;
  EXPECT_THAT(in_root(), ElementsAre("process: not_readable"));
  query_.owner = kUser;
  write(by_id_, "of the owner", kUser);
  EXPECT_THAT(in_root(), ElementsAre("process of the owner"));
}

// Its mode allows everybody to read it, and a directory above it allows nobody to reach it.
TEST_F(DebugFilePlacesTest, WhatOnlyRootMayReachIsNotForUsers) {
  const std::string host = (root_ / "usr/lib/debug").string();
  fs::permissions(top_, fs::perms::all);
  write(by_id_, "secret");
  query_.audience = NameAudience::kOthers;
  for (fs::path directory = by_id_.parent_path(); directory != top_;
       directory = directory.parent_path()) {
    EXPECT_THAT(in_root(), ElementsAre("process secret"));
    EXPECT_EQ(shown(open_in_host(query_, host).value()), "host secret");
    fs::permissions(directory, fs::perms::others_exec, fs::perm_options::remove);
    EXPECT_THAT(in_root(), ElementsAre("process: not_readable")) << directory;
    EXPECT_EQ(shown(open_in_host(query_, host).value()), "host: not_readable") << directory;
    fs::permissions(directory, fs::perms::others_exec, fs::perm_options::add);
  }
}

TEST_F(DebugFilePlacesTest, WhatOnlyRootMayReachIsPrivateForRoot) {
  const UniqueFd root(::open(root_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  write(by_id_, "secret");
  EXPECT_FALSE(open_in_root(root.get(), 0, query_).at(0).is_private);
  fs::permissions(root_ / "usr", fs::perms::others_exec, fs::perm_options::remove);
  EXPECT_TRUE(open_in_root(root.get(), 0, query_).at(0).is_private);
  EXPECT_THAT(in_root(), ElementsAre("process secret"));
}

TEST_F(DebugFilePlacesTest, APrivateFileOfTheOwnerIsForTheOwnerAndRoot) {
  fs::permissions(top_, fs::perms::all);
  const auto expect_private = [this] {
    for (const NameAudience audience : {NameAudience::kRoot, NameAudience::kOwner}) {
      query_.audience = audience;
      EXPECT_THAT(in_root(), ElementsAre("process of the owner"));
    }
    query_.audience = NameAudience::kOthers;
    EXPECT_THAT(in_root(), ElementsAre("process: not_readable"));
  };
  query_.audience = NameAudience::kOthers;
  write(by_id_, "of the owner", kUser);
  EXPECT_THAT(in_root(), ElementsAre("process of the owner"));
  fs::permissions(root_ / "usr", fs::perms::others_exec, fs::perm_options::remove);
  expect_private();
  fs::permissions(root_ / "usr", fs::perms::others_exec, fs::perm_options::add);
  fs::permissions(by_id_, fs::perms::others_read, fs::perm_options::remove);
  expect_private();
}

TEST_F(DebugFilePlacesTest, APrivateFileOfRootIsNotForTheOwnerOfTheProgram) {
  query_.audience = NameAudience::kOwner;
  write(by_id_, "secret");
  fs::permissions(root_ / "usr", fs::perms::others_exec, fs::perm_options::remove);
  EXPECT_THAT(in_root(), ElementsAre("process: not_readable"));
}

TEST_F(DebugFilePlacesTest, ProcessesOfOtherMountsHaveAnotherRoot) {
  const test::UsersMounts process([] { return true; });
  ASSERT_TRUE(process.is_ready());
  const RootId own = root_id_of(static_cast<std::uint32_t>(::getpid()));
  EXPECT_NE(root_id_of(process.tgid()), own);
  EXPECT_NE(root_id_of(process.tgid()), RootId());
  EXPECT_EQ(root_id_of(static_cast<std::uint32_t>(::getppid())), own);
  EXPECT_EQ(root_id_of(0x7fffffff), RootId());
}

TEST_F(DebugFilePlacesTest, AProcessInAnotherMountNamespaceHasOtherMounts) {
  const test::UsersMounts process([] { return true; });
  ASSERT_TRUE(process.is_ready());
  EXPECT_TRUE(has_other_mounts(process.tgid()));
  EXPECT_FALSE(has_other_mounts(static_cast<std::uint32_t>(::getpid())));
  EXPECT_FALSE(has_other_mounts(0x7fffffff)) << "not known of a process that has ended";
}

TEST_F(DebugFilePlacesTest, AFifoAndADirectoryAreNotOpened) {
  ASSERT_EQ(::mkfifo(by_id_.c_str(), 0666), 0);
  fs::create_directories(root_ / "opt/app/program.debug");
  EXPECT_THAT(in_root(), ElementsAre("process: not_regular", "link: not_regular"));
}

TEST_F(DebugFilePlacesTest, TooLargeAFileIsRefused) {
  write(by_id_, "");
  fs::resize_file(by_id_, (std::uintmax_t{4} << 30) + 1);
  EXPECT_THAT(in_root(), ElementsAre("process: too_large"));
}

TEST_F(DebugFilePlacesTest, ALinkOfSeveralComponentsIsIgnored) {
  write(root_ / "opt/secret", "secret");
  query_.build_id.clear();
  query_.debug_link = "../secret";
  EXPECT_THAT(in_root(), IsEmpty());
}

TEST_F(DebugFilePlacesTest, AGiantLinkAndAGiantPathFindNothing) {
  query_.build_id.clear();
  query_.debug_link = std::string(100'000, 'a');
  EXPECT_THAT(in_root(), IsEmpty());
  query_.debug_link = "a";
  query_.path = "/" + std::string(100'000, 'b') + "/c";
  EXPECT_THAT(in_root(), IsEmpty());
}

TEST_F(DebugFilePlacesTest, ABuildIdOfOddLengthFindsNothing) {
  query_.debug_link.clear();
  write(root_ / "usr/lib/debug/.build-id/ab/.debug", "short");
  for (const std::string& id : {std::string(), std::string("\xab"), std::string(5000, '\xab')}) {
    query_.build_id = id;
    EXPECT_THAT(in_root(), IsEmpty());
  }
}

TEST_F(DebugFilePlacesTest, NothingOnFuseIsOpened) {
  const fs::path mount = by_id_.parent_path();
  test::SilentFuse fuse(mount.string());
  ASSERT_TRUE(fuse.mounted()) << "needs /dev/fuse";
  query_.build_id.clear();
  query_.path = "/usr/lib/debug/.build-id/ab/program";
  EXPECT_THAT(in_root(), ElementsAre("link: on_fuse"));
}

TEST_F(DebugFilePlacesTest, NothingOnAnOverlayOfUsersIsOpened) {
  const fs::path lower = top_ / "fuse";
  fs::create_directories(lower);
  test::SilentFuse fuse(lower.string());
  ASSERT_TRUE(fuse.mounted()) << "needs /dev/fuse";
  query_.build_id.clear();
  query_.debug_link = "file";
  query_.path = (root_ / "program").string();
  const test::UsersMounts process([&] {
    return test::mount_overlay(lower.string(), by_id_.parent_path().string(), root_.string());
  });
  ASSERT_TRUE(process.is_ready());
  EXPECT_THAT(in_root_of(process.tgid()), Contains("link: on_fuse"));
}

TEST_F(DebugFilePlacesTest, WhereUsersMakeMountsAFileOfRootDoesNotCount) {
  query_.build_id.clear();
  query_.debug_link = "cmdline";
  query_.path = (by_id_.parent_path() / "program").string();
  const std::string mounted = (by_id_.parent_path() / "cmdline").string();
  write(mounted, "of the owner", kUser);
  write(top_ / "of root", "of root");
  const std::string roots = (top_ / "of root").string();
  const test::UsersMounts process(
      [&] { return ::mount(roots.c_str(), mounted.c_str(), nullptr, MS_BIND, nullptr) == 0; });
  ASSERT_TRUE(process.is_ready());
  EXPECT_THAT(in_root_of(process.tgid()), ElementsAre("link: user_mount"));
  EXPECT_THAT(in_root_of(0), ElementsAre("link of the owner"));
}

TEST_F(DebugFilePlacesTest, WhereUsersMakeMountsAFileOfTheOwnerCounts) {
  query_.build_id.clear();
  query_.path = (by_id_.parent_path() / "program").string();
  write(by_id_.parent_path() / "program.debug", "of the owner", kUser);
  const test::UsersMounts process([] { return true; });
  ASSERT_TRUE(process.is_ready());
  EXPECT_THAT(in_root_of(process.tgid()), ElementsAre("link of the owner"));
}

TEST_F(DebugFilePlacesTest, AnyOwnersFileCountsInTheCache) {
  EXPECT_EQ(in_cache(), "none");
  write(by_id_, "downloaded", kOtherUser);
  EXPECT_EQ(in_cache(), "cache downloaded");
}

TEST_F(DebugFilePlacesTest, ACacheThatOthersCanWriteIsIgnored) {
  const fs::path cache = root_ / "usr/lib/debug";
  write(by_id_, "downloaded");
  fs::permissions(cache, fs::perms::others_write, fs::perm_options::add);
  EXPECT_EQ(in_cache(), "none");
  fs::permissions(cache, fs::perms::others_write, fs::perm_options::remove);
  EXPECT_EQ(in_cache(), "cache downloaded");
  ASSERT_EQ(::chown(cache.c_str(), kUser, 0), 0);
  EXPECT_EQ(in_cache(), "none");
}

TEST_F(DebugFilePlacesTest, TheCacheHasNoLinksAndNoFifos) {
  write(root_ / "usr/lib/debug/elsewhere", "linked");
  fs::create_symlink("../../elsewhere", by_id_);
  EXPECT_EQ(in_cache(), "none");
  fs::remove(by_id_);
  ASSERT_EQ(::mkfifo(by_id_.c_str(), 0666), 0);
  EXPECT_EQ(in_cache(), "cache: not_regular");
}

TEST_F(DebugFilePlacesTest, TheHostsDirectoryHasRootsFilesOnly) {
  const std::string host = (root_ / "usr/lib/debug").string();
  write(by_id_, "of root");
  const auto file = open_in_host(query_, host);
  ASSERT_TRUE(file);
  EXPECT_EQ(shown(*file), "host of root");
  write(by_id_, "of the owner", kUser);
  EXPECT_FALSE(open_in_host(query_, host));
}

TEST_F(DebugFilePlacesTest, AProcessThatHasEndedHasNoRoot) {
  EXPECT_THAT(open_in_root_of(0x7fffffff, query_), IsEmpty());
}

}  // namespace
}  // namespace profd
