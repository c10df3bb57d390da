#include "collectors/files/mapped_files.h"

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <optional>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>

#include "collectors/files/open_mapped_file.h"
#include "tests/collectors/file_generation.h"
#include "tests/collectors/files/mapped_files_fixture.h"
#include "tests/collectors/silent_fuse.h"
#include "tests/collectors/users_mounts.h"

namespace profd {
namespace {

using test::MappedFilesTest;
using test::opened_by;
using testing::HasSubstr;

TEST_F(MappedFilesTest, OpensTheMappedFileByItsRange) {
  const auto file = opened_by(files_, view_);
  ASSERT_TRUE(file);
  EXPECT_TRUE(file->fd.valid()) << file->error;
  EXPECT_EQ(file->path, path_.string());
  EXPECT_FALSE(file->deleted);
}

// MappedFiles with a file whose server does not answer. A thread of its own waits for the result;
// when the server ends, a thread that hangs is released.
class SilentFuseTest : public MappedFilesTest {
 protected:
  void SetUp() override {
    MappedFilesTest::SetUp();
    ::munmap(memory_, kPage);
    std::filesystem::create_directory(directory_ / "mount");
    fuse_.emplace(directory_ / "mount");
    ASSERT_TRUE(fuse_->mounted());
    path_ = fuse_->file();
    const UniqueFd fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(fd.valid());
    memory_ = ::mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    ASSERT_NE(memory_, MAP_FAILED);
    view_.start = reinterpret_cast<std::uint64_t>(memory_);
    view_.end = view_.start + kPage;
  }
  void TearDown() override {
    fuse_.reset();
    MappedFilesTest::TearDown();
  }

  std::string error_while_silent() {
    fuse_->fall_silent();
    auto answer =
        std::async(std::launch::async, [this] { return opened_by(files_, view_)->error; });
    if (answer.wait_for(std::chrono::seconds(20)) == std::future_status::ready) {
      return answer.get();
    }
    fuse_.reset();
    return "hangs";
  }

  std::optional<test::SilentFuse> fuse_;
};

TEST_F(SilentFuseTest, AMappedFileIsNotWaitedFor) {
  EXPECT_THAT(error_while_silent(), HasSubstr("FUSE"));
}

TEST_F(SilentFuseTest, AFileThatTheRecordSaysIsOnFuseIsNotAccessed) {
  view_.on_fuse = true;
  EXPECT_THAT(error_while_silent(), HasSubstr("FUSE"));
}

TEST_F(SilentFuseTest, AFileOfAProcessThatIsGoneIsNotWaitedFor) {
  const std::string text = names();
  view_.names = text;
  view_.process.tgid = 0x7fffffff;
  EXPECT_NE(error_while_silent(), "hangs");
}

// The sampled file may have been replaced by such a one at its address since.
TEST_F(SilentFuseTest, AFileOnAnOverlayOfUsersIsNotWaitedFor) {
  const test::UsersMounts process = map_on_overlay(directory_ / "mount", "file");
  ASSERT_TRUE(process.is_ready());
  view_.process.tgid = process.tgid();
  EXPECT_THAT(error_while_silent(), HasSubstr("overlay of users"));
}

// As the kernel side has it: with the key of the layer's file.
TEST_F(MappedFilesTest, OpensAFileOnAnOverlayOfUsersInItsOwnFileSystem) {
  const std::string lower = directory_ / "lower";
  std::filesystem::create_directory(lower);
  ::munmap(memory_, kPage);
  map_file("lower/object file");
  const auto generation = test::generation_of(path_);
  if (!generation) GTEST_SKIP() << "NOT TESTED: temporary files are not on ext4, xfs or tmpfs";
  view_.file.generation = *generation;
  const test::UsersMounts process = map_on_overlay(lower, "object file");
  ASSERT_TRUE(process.is_ready());
  view_.process.tgid = process.tgid();
  const auto file = opened_by(files_, view_);
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->fd.valid()) << file->error;
  struct stat status {};
  ASSERT_EQ(::fstat(file->fd.get(), &status), 0);
  EXPECT_EQ(file_key_of(status).device, view_.file.device);
  EXPECT_EQ(status.st_ino, view_.file.inode);
  EXPECT_TRUE(file->path.ends_with("overlay/object file")) << file->path;
}

TEST_F(MappedFilesTest, OpensEachFileOnce) {
  EXPECT_EQ(opened_by(files_, view_), opened_by(files_, view_));
  EXPECT_EQ(files_.size(), 1u);
}

TEST_F(MappedFilesTest, OpensADeletedFileAndNamesItWithoutTheKernelsSuffix) {
  std::filesystem::remove(path_);  // moves the change time, not the content
  const auto file = opened_by(files_, view_);
  ASSERT_TRUE(file->fd.valid()) << file->error;
  EXPECT_TRUE(file->deleted);
  EXPECT_EQ(file->path, path_.string());
}

TEST_F(MappedFilesTest, KeepsANameThatEndsInDeleted) {
  ::munmap(memory_, kPage);
  map_file("odd (deleted)");
  const auto file = opened_by(files_, view_);
  ASSERT_TRUE(file->fd.valid()) << file->error;
  EXPECT_FALSE(file->deleted);
  EXPECT_EQ(file->path, path_.string());
}

// A user can mount a file at any path of a mount namespace of his own.
TEST_F(MappedFilesTest, ANameThatAUserMadeByAMountIsNoDeletion) {
  const std::filesystem::path other = directory_ / "other (deleted)";
  std::ofstream(other).close();
  const test::UsersMounts process([&] {
    if (::mount(path_.c_str(), other.c_str(), nullptr, MS_BIND, nullptr) != 0) return false;
    const int fd = ::open(other.c_str(), O_RDONLY | O_CLOEXEC);
    return ::mmap(memory_, kPage, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == memory_ &&
           ::close(fd) == 0;
  });
  ASSERT_TRUE(process.is_ready());
  view_.process.tgid = process.tgid();
  path_ = other;
  const std::string text = names();
  view_.names = text;
  const auto file = opened_by(files_, view_);
  ASSERT_TRUE(file->fd.valid()) << file->error;
  EXPECT_TRUE(file->path.ends_with("/other (deleted)")) << file->path;
  EXPECT_FALSE(file->deleted);
}

TEST_F(MappedFilesTest, FindsAMappingThatWasJoinedWithItsNeighbourByTheNames) {
  view_.end += kPage;
  const std::string text = names();
  view_.names = text;
  const auto file = opened_by(files_, view_);
  EXPECT_TRUE(file->fd.valid()) << file->error;
}

TEST_F(MappedFilesTest, FollowsNoSymbolicLinkUnderTheNames) {
  std::filesystem::rename(path_, directory_ / "moved");
  std::filesystem::create_symlink(directory_ / "moved", path_);
  view_.process.tgid = 4'000'000;
  const std::string text = names();
  view_.names = text;
  EXPECT_FALSE(opened_by(files_, view_)->fd.valid());
}

TEST_F(MappedFilesTest, KeepsTheStatusOfTheOpenedFile) {
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  const auto file = opened_by(files_, view_);
  EXPECT_EQ(file->stat_device, status.st_dev);
  EXPECT_EQ(file->stat_inode, status.st_ino);
  EXPECT_EQ(file->stat_ctime_ns, view_.file.ctime_ns);
}

// The key's generation stands for another file each time: the same bytes under many keys.
TEST_F(MappedFilesTest, HoldsHalfOfTheDescriptorsAndASixteenthForOneOwner) {
  for (const auto& [owner, held] : {std::pair{uid_t{0}, 16}, std::pair{uid_t{54321}, 2}}) {
    ASSERT_EQ(::chown(path_.c_str(), owner, owner), 0);
    MappedFiles files(32);
    int valid = 0;
    std::vector<std::shared_ptr<const MappedFile>> all;
    for (view_.file.generation = 1; view_.file.generation <= 20; ++view_.file.generation) {
      all.push_back(opened_by(files, view_));
      valid += all.back()->fd.valid();
    }
    EXPECT_EQ(valid, held);
    EXPECT_EQ(all.back()->error, "too many files are held");
    EXPECT_EQ(all.back()->path, path_.string());
    EXPECT_EQ(all.back()->stat_inode, view_.file.inode);
    all.clear();
    files.release_unused();
    EXPECT_TRUE(opened_by(files, view_)->fd.valid());
  }
}

TEST_F(MappedFilesTest, HoldsAQuarterOfTheDescriptorsForUsers) {
  MappedFiles files(32);
  const auto held = [&](uid_t owner) {
    EXPECT_EQ(::chown(path_.c_str(), owner, owner), 0);
    ++view_.file.generation;
    return opened_by(files, view_);
  };
  std::vector<std::shared_ptr<const MappedFile>> all;
  for (uid_t user = 54'321; user < 54'331; ++user) all.push_back(held(user));
  EXPECT_EQ(std::ranges::count_if(all, [](const auto& file) { return file->fd.valid(); }), 8);
  EXPECT_EQ(all.back()->error, "too many files are held");
  EXPECT_TRUE(held(0)->fd.valid());
  all.clear();
  files.release_unused();
  EXPECT_TRUE(held(54'321)->fd.valid());
}

TEST_F(MappedFilesTest, KeepsABoundedNumberOfFiles) {
  view_.process.tgid = 4'000'000;
  auto now = MappedFiles::Clock::now();
  for (view_.file.generation = 1; view_.file.generation <= 65'536; ++view_.file.generation) {
    if (view_.file.generation % 500 == 0) now += std::chrono::seconds(1);
    opened_by(files_, view_, now);
  }
  const auto refused = opened_by(files_, view_, now);
  EXPECT_EQ(refused->error, "too many files are known");
  EXPECT_EQ(files_.size(), 65'536u);
}

TEST_F(MappedFilesTest, AFileWithALongPathCountsAsSeveral) {
  view_.process.tgid = 4'000'000;
  std::string names;
  for (int i = 0; i < 8; ++i) names += std::string(255, 'a') + '\0';
  view_.names = names;
  constexpr std::size_t kCount = 1 + 8 * 256 / MappedFiles::kPathBytes;
  const std::size_t most = MappedFiles::kMaxFiles / kCount;
  auto now = MappedFiles::Clock::now();
  for (view_.file.generation = 1; view_.file.generation <= most; ++view_.file.generation) {
    if (view_.file.generation % 500 == 0) now += std::chrono::seconds(1);
    EXPECT_EQ(opened_by(files_, view_, now)->path.size(), 8U * 256);
  }
  const auto refused = opened_by(files_, view_, now);
  EXPECT_EQ(refused->error, "too many files are known");
  EXPECT_EQ(refused->path, "?");
  EXPECT_LT(refused->path.capacity(), 100U);
  files_.release_unused();
  EXPECT_EQ(files_.size(), 0U);
  EXPECT_EQ(opened_by(files_, view_, now)->path.size(), 8U * 256);
}

TEST_F(MappedFilesTest, AFileWhoseOpenHangsDelaysNoOther) {
  std::promise<void> gate;
  MappedFiles files(1024, [gate = gate.get_future().share()](const MappingPlace& place) {
    if (place.file.generation == 1) gate.wait();
    return open_mapped_file(place);
  });
  view_.file.generation = 1;
  EXPECT_TRUE(files.find_or_open(view_)->is_opening);
  view_.file.generation = 2;
  EXPECT_TRUE(opened_by(files, view_)->fd.valid());
  view_.file.generation = 1;
  EXPECT_TRUE(files.find(view_.file)->is_opening);
  gate.set_value();
  EXPECT_TRUE(opened_by(files, view_)->fd.valid());
}

TEST_F(MappedFilesTest, OnlyAFailureThatMayPassIsWorthAnotherOpen) {
  const auto opened = [](const MappingPlace& place) {
    MappedFile file = unopened(place, "in the test");
    file.may_open_later = place.file.generation == 1;
    return file;
  };
  MappedFiles files(1024, opened);
  view_.file.generation = 1;
  EXPECT_TRUE(opened_by(files, view_)->may_open_later);
  view_.file.generation = 2;
  EXPECT_FALSE(opened_by(files, view_)->may_open_later);
  view_.file.generation = 3;
  view_.file.size_bytes += 1;
  EXPECT_FALSE(opened_by(files_, view_)->may_open_later) << "changed since it was sampled";
  MappedFiles none(0);
  EXPECT_FALSE(opened_by(none, view_)->may_open_later);
  view_.file.size_bytes -= 1;
  MappedFiles others(0);
  EXPECT_TRUE(opened_by(others, view_)->may_open_later) << "too many files are held";
}

TEST_F(MappedFilesTest, FallsBackToTheNamesWhenTheProcessIsGone) {
  view_.process.tgid = 4'000'000;  // above any pid_max in use here
  const std::string text = names();
  view_.names = text;
  const auto file = opened_by(files_, view_);
  ASSERT_TRUE(file->fd.valid()) << file->error;
  EXPECT_EQ(file->path, path_.string());
}

TEST_F(MappedFilesTest, RefusesAnotherFileUnderTheSameName) {
  view_.process.tgid = 4'000'000;
  view_.file.inode += 1;
  const std::string text = names();
  view_.names = text;
  const auto file = opened_by(files_, view_);
  EXPECT_FALSE(file->fd.valid());
  EXPECT_THAT(file->error, HasSubstr("another file"));
  EXPECT_EQ(file->path, path_.string());
}

TEST_F(MappedFilesTest, RefusesAFileThatWasWrittenSinceItWasSampled) {
  view_.file.ctime_ns -= 1;
  const auto file = opened_by(files_, view_);
  EXPECT_FALSE(file->fd.valid());
  EXPECT_THAT(file->error, HasSubstr("changed since it was sampled"));
}

TEST_F(MappedFilesTest, TriesAFailedOpenAgainAtMostOnceASecond) {
  using std::chrono::milliseconds;
  const MappedFiles::Clock::time_point now{};
  MappingView gone = view_;
  gone.process.tgid = 4'000'000;
  const auto failed = opened_by(files_, gone, now);
  EXPECT_FALSE(failed->fd.valid());
  EXPECT_EQ(opened_by(files_, view_, now + milliseconds(999)), failed);
  const auto again = opened_by(files_, gone, now + milliseconds(1000));
  EXPECT_NE(again, failed);
  EXPECT_FALSE(again->fd.valid());
  EXPECT_EQ(opened_by(files_, view_, now + milliseconds(1999)), again);
  EXPECT_TRUE(opened_by(files_, view_, now + milliseconds(2000))->fd.valid());
}

TEST_F(MappedFilesTest, NeverOpensAFifoUnderTheName) {
  std::filesystem::remove(path_);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  const UniqueFd watch(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  ASSERT_GE(::inotify_add_watch(watch.get(), path_.c_str(), IN_OPEN), 0);
  view_.process.tgid = 4'000'000;
  const std::string text = names();
  view_.names = text;
  const auto file = opened_by(files_, view_);
  EXPECT_FALSE(file->fd.valid());
  EXPECT_THAT(file->error, HasSubstr("not a regular file"));
  std::array<char, 4096> events;
  EXPECT_EQ(::read(watch.get(), events.data(), events.size()), -1) << "somebody opened it";
}

TEST_F(MappedFilesTest, ReleasesOnlyFilesWithoutOtherReferences) {
  auto held = opened_by(files_, view_);
  files_.release_unused();
  EXPECT_EQ(files_.size(), 1u);
  held.reset();
  files_.release_unused();
  EXPECT_EQ(files_.size(), 0u);
}

// As that of a deleted file with very many extents.
TEST_F(SilentFuseTest, ACloseThatTakesLongIsNotWaitedFor) {
  std::optional<MappedFiles> files(std::in_place, 1024, [this](const MappingPlace& place) {
    MappedFile file = unopened(place, {});
    file.fd.reset(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    return file;
  });
  ASSERT_TRUE(opened_by(*files, view_)->fd.valid());
  fuse_->fall_silent();
  auto released = std::async(std::launch::async, [&] { files->release_unused(); });
  EXPECT_EQ(released.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_EQ(files->size(), 0u);
  EXPECT_EQ(files->closing(), 1u);
  fuse_.reset();  // the close ends
  released.wait();
  files.reset();
}

TEST_F(MappedFilesTest, HasNoFileForAMappingWithoutFile) {
  view_.file = {};
  EXPECT_EQ(opened_by(files_, view_), nullptr);
}

TEST(PathFromNames, ReversesTheComponents) {
  EXPECT_EQ(path_from_names(std::string_view("sleep\0bin\0usr\0", 14)), "/usr/bin/sleep");
  EXPECT_EQ(path_from_names(std::string_view("x", 1)), "/x");
  EXPECT_EQ(path_from_names(""), "");
}

TEST(AreNamesOf, HoldsForTheWholePathAlone) {
  constexpr std::string_view kNames("sleep\0bin\0usr\0", 14);
  EXPECT_TRUE(are_names_of(kNames, "/usr/bin/sleep"));
  EXPECT_TRUE(are_names_of(kNames.substr(0, 13), "/usr/bin/sleep"));  // without the last NUL
  for (const char* other : {"/bin/sleep", "/x/usr/bin/sleep", "/usr/bin/xsleep", "/usr/bin/slee",
                            "usr/bin/sleep", "/usr/bin/sleep/", "sleep", "/", ""}) {
    EXPECT_FALSE(are_names_of(kNames, other)) << other;
  }
  EXPECT_TRUE(are_names_of("", ""));
}

}  // namespace
}  // namespace profd
