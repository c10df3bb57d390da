#include "daemon/service/instance_lock.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <string>

#include <gmock/gmock.h>

#include "tests/formats/readers.h"

namespace profd {
namespace {

TEST(InstanceLock, RefusesASecondHolderAndNamesTheFirst) {
  const test::ScratchDirectory directory;
  const std::string path = directory.path() / "lock";
  const Result<UniqueFd> first = take_instance_lock(path);
  ASSERT_TRUE(first) << first.error().message;
  const Result<UniqueFd> second = take_instance_lock(path);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kBusy);
  EXPECT_EQ(second.error().message,
            "profd is already running as pid " + std::to_string(::getpid()));
}

TEST(InstanceLock, IsFreeOnceItsHolderHasEnded) {
  const test::ScratchDirectory directory;
  const std::string path = directory.path() / "lock";
  const pid_t child = ::fork();
  if (child == 0) ::_exit(take_instance_lock(path) ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  const Result<UniqueFd> lock = take_instance_lock(path);
  ASSERT_TRUE(lock) << lock.error().message;
  EXPECT_EQ(test::read_file(path), std::to_string(::getpid()) + "\n");
}

// A process that can open the file can lock it.
TEST(InstanceLock, OnlyItsOwnerMayOpenItsFile) {
  const test::ScratchDirectory directory;
  for (const bool was_there : {false, true}) {
    SCOPED_TRACE(was_there ? "an existing file" : "a new file");
    const std::string path = directory.path() / (was_there ? "old" : "new");
    if (was_there) {
      directory.write("old", "");
      ASSERT_EQ(::chown(path.c_str(), 4711, 4711), 0) << "needs root";
      ASSERT_EQ(::chmod(path.c_str(), 0666), 0);
    }
    const Result<UniqueFd> lock = take_instance_lock(path);
    ASSERT_TRUE(lock) << lock.error().message;
    struct stat status {};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0600U);
    EXPECT_EQ(status.st_uid, ::geteuid());
    EXPECT_EQ(status.st_gid, ::getegid());
  }
}

TEST(InstanceLock, DoesNotFollowALink) {
  const test::ScratchDirectory directory;
  const std::string path = directory.path() / "lock";
  const std::string victim = directory.write("victim", "precious");
  ASSERT_EQ(::symlink(victim.c_str(), path.c_str()), 0);
  EXPECT_FALSE(take_instance_lock(path));
  EXPECT_EQ(test::read_file(victim), "precious");
}

}  // namespace
}  // namespace profd
