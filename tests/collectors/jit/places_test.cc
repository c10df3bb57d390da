// To which process a file belongs: files of containers, and files of root in users' processes.

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "collectors/jit/directory_watch.h"
#include "collectors/jit/processes.h"
#include "collectors/jit/scan.h"
#include "tests/collectors/jit/runtime.h"
#include "tests/collectors/silent_fuse.h"
#include "tests/collectors/users_mounts.h"

namespace profd::test {
namespace {

class WatchedPlaceTest : public testing::Test {
 protected:
  [[nodiscard]] static bool sees(const Runtime& runtime, const std::string& path) {
    struct stat status {};
    EXPECT_EQ(::stat(path.c_str(), &status), 0);
    return is_seen_by(runtime.key(),
                      {.path = path, .device = status.st_dev, .inode = status.st_ino});
  }

  PrivateDirectory here_;
  PrivateDirectory there_;
};

TEST_F(WatchedPlaceTest, ADirectoryIsSeenAsTmpAsWorkingDirectoryAndByItsPath) {
  const Runtime runtime([this] { return ::chdir(here_.path().c_str()) == 0; });
  ASSERT_TRUE(runtime.is_ready());
  EXPECT_TRUE(sees(runtime, "/tmp"));
  EXPECT_TRUE(sees(runtime, here_.path()));
  EXPECT_TRUE(sees(runtime, there_.path()));
}

TEST_F(WatchedPlaceTest, ADirectoryThatAProcessCantReachIsNotSeen) {
  const Runtime runtime(
      [this] { return ::chroot(here_.path().c_str()) == 0 && ::chdir("/") == 0; });
  ASSERT_TRUE(runtime.is_ready());
  EXPECT_FALSE(sees(runtime, "/tmp"));
  EXPECT_FALSE(sees(runtime, there_.path()));
  EXPECT_TRUE(sees(runtime, here_.path()));
}

// A process whose root is an overlay of a FUSE file system, which does not answer.
class HangingRootTest : public testing::Test {
 protected:
  HangingRootTest() {
    for (const char* name : {"fuse", "lower", "lower/tmp", "overlay"}) {
      EXPECT_EQ(::mkdir((directory_ / name).c_str(), 0755), 0);
    }
    fuse_ = std::make_unique<SilentFuse>(directory_ / "fuse");
    EXPECT_TRUE(fuse_->mounted());
  }

  [[nodiscard]] std::optional<JitRefusal> refusal_of_tmp(bool has_mount) {
    const UsersMounts process([&, lower = directory_ / "lower", root = directory_ / "overlay"] {
      const std::string tmp = root + "/tmp";
      return mount_overlay(lower, directory_ / "fuse", root) &&
             (!has_mount || ::mount(lower.c_str(), tmp.c_str(), nullptr, MS_BIND, nullptr) == 0) &&
             ::chroot(root.c_str()) == 0 && ::chdir("/") == 0;
    });
    EXPECT_TRUE(process.is_ready());
    fuse_->fall_silent();
    auto opening = std::async(std::launch::async, [tgid = process.tgid()] {
      const UniqueFd proc(::open(("/proc/" + std::to_string(tgid)).c_str(), O_PATH | O_CLOEXEC));
      const JitDirectory tmp = open_directory_of(proc.get(), tgid, "root", "tmp");
      EXPECT_NE(tmp.fd.valid(), tmp.refusal.has_value());
      return tmp.refusal;
    });
    const bool is_late = opening.wait_for(std::chrono::seconds(10)) != std::future_status::ready;
    fuse_.reset();  // a call that waits fails
    const auto refusal = opening.get();
    return is_late ? JitRefusal::kLate : refusal;
  }

  PrivateDirectory directory_;
  std::unique_ptr<SilentFuse> fuse_;
};

TEST_F(HangingRootTest, IsNotAskedForADirectory) {
  EXPECT_EQ(refusal_of_tmp(false), JitRefusal::kOnFuse);
}

TEST_F(HangingRootTest, HasAnotherMountAtTmpThatIsFound) {
  EXPECT_EQ(refusal_of_tmp(true), std::nullopt);
}

// A PID namespace whose first process, with the pid 1, sleeps.
class ContainerTest : public testing::Test {
 protected:
  void start(bool hides_directory) {
    container_ = std::make_unique<ForkedRuntime>([&] {
      return ::unshare(CLONE_NEWPID) == 0 &&
             (!hides_directory || ::chroot(elsewhere_.path().c_str()) == 0);
    });
    ASSERT_TRUE(container_->is_ready());
    auto started = JitProcesses::start({.directories = {directory_.path()}});
    ASSERT_TRUE(started) << started.error().message;
    processes_ = std::move(*started);
    write_file(directory_ / "perf-1.map", "10000 40 written under its pid\n");
    processes_->on_mapping(jit_code_of(key_of(container_->child())));
  }
  [[nodiscard]] bool is_named() {
    return name_at(*processes_, key_of(container_->child()), 0x10000, UINT64_MAX - 1) != "";
  }

  PrivateDirectory directory_;
  PrivateDirectory elsewhere_;
  std::unique_ptr<ForkedRuntime> container_;
  std::unique_ptr<JitProcesses> processes_;
};

TEST_F(ContainerTest, AFileInADirectoryOfTheContainerBelongsToItsProcess) {
  start(false);
  EXPECT_TRUE(wait_for(*processes_, [this] { return is_named(); }));
}

TEST_F(ContainerTest, AFileInAnotherDirectoryBelongsToAnotherProcessWithThePid) {
  start(true);
  const std::uint64_t ticket = processes_->read_to_end({key_of(container_->child())});
  ASSERT_TRUE(wait_for(*processes_, [&] { return processes_->has_read_to_end(ticket); }));
  EXPECT_FALSE(is_named());
}

// What the scan of a process finds of a file of root's.
class RootsFileTest : public testing::Test {
 protected:
  RootsFileTest() { write_file(path_, "10000 40 secret\n"); }

  [[nodiscard]] static std::vector<JitRefusal> refusals_for(std::uint32_t uid, std::uint32_t tgid,
                                                            const std::string& directory) {
    const UniqueFd place(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    const JitFileRules rules{
        .kind = JitFileKind::kPerfMap, .uid = uid, .real_uid = uid, .tgid = tgid};
    const JitOpening opening = open_jit_file(place.get(), "perf-1.map", rules);
    return opening.refusal ? std::vector{*opening.refusal} : std::vector<JitRefusal>{};
  }

  PrivateDirectory directory_;
  std::string path_ = directory_ / "perf-1.map";
};

TEST_F(RootsFileTest, APrivateOneNamesTheCodeOfRootsProcessesOnly) {
  EXPECT_THAT(refusals_for(kOther, 0, directory_.path()), testing::IsEmpty());
  ASSERT_EQ(::chmod(path_.c_str(), 0600), 0);
  EXPECT_THAT(refusals_for(kOther, 0, directory_.path()),
              testing::ElementsAre(JitRefusal::kNotReadable));
  EXPECT_THAT(refusals_for(0, 0, directory_.path()), testing::IsEmpty());
}

TEST_F(RootsFileTest, OneAtAPathThatAUserChoseByAMountIsRefused) {
  const UsersMounts process([] { return true; });
  ASSERT_TRUE(process.is_ready());
  EXPECT_THAT(refusals_for(kOther, process.tgid(), process.seen(directory_.path())),
              testing::ElementsAre(JitRefusal::kUserMount));
  ASSERT_EQ(::chown(path_.c_str(), kOther, kOther), 0);
  EXPECT_THAT(refusals_for(kOther, process.tgid(), process.seen(directory_.path())),
              testing::IsEmpty());
}

TEST(JitFileShareTest, RootsFileTakesTheShareOfEachUserSeparately) {
  PrivateDirectory directory;
  const std::string path = directory / "dump";
  write_file(path, std::string(40, '\0'));
  const Runtime roots([&] { return map_marker(path.c_str()); });
  const Runtime users(
      [&] { return map_marker(path.c_str()) && ::setresuid(kOther, kOther, kOther) == 0; });
  ASSERT_TRUE(roots.is_ready() && users.is_ready());
  const JitScan root = scan_for_jit_files(roots.key());
  const JitScan user = scan_for_jit_files(users.key());
  ASSERT_EQ(root.files.size(), 1U);
  ASSERT_EQ(user.files.size(), 1U);
  EXPECT_TRUE(is_same_file(*root.files[0], *user.files[0]));
  EXPECT_EQ(root.files[0]->id.owner, 0U);
  EXPECT_EQ(user.files[0]->id.owner, kOther);
  EXPECT_NE(root.files[0]->id, user.files[0]->id);
  EXPECT_EQ(with_owner(*root.files[0], kOther)->id, user.files[0]->id);
}

}  // namespace
}  // namespace profd::test
