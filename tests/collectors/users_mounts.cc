#include "tests/collectors/users_mounts.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <csignal>

#include "tests/user_namespace.h"

namespace profd::test {

namespace {

// A mount namespace has mounts of its own, so a chroot is entered there again, by its path.
bool enter_namespaces() {
  const int former_root = leave_chroot();
  const std::string link = "/proc/self/fd/" + std::to_string(former_root);
  std::array<char, PATH_MAX> root{};
  return ::readlink(link.c_str(), root.data(), root.size() - 1) > 0 &&
         ::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && ::chroot(root.data()) == 0 &&
         ::chdir("/") == 0;
}

}  // namespace

UsersMounts::UsersMounts(const std::function<bool()>& prepare) {
  int ready[2] = {-1, -1};
  if (::pipe(ready) != 0) return;
  const UniqueFd end(ready[0]);
  pid_ = ::fork();
  if (pid_ == 0) {
    // Without those of the test: the end of a FUSE server is the last close of its device.
    const auto report = static_cast<unsigned>(ready[1]);
    ::close_range(STDERR_FILENO + 1, report - 1, 0);
    ::close_range(report + 1, UINT_MAX, 0);
    const bool is_prepared = enter_namespaces() && prepare();
    (void)!::write(ready[1], &is_prepared, sizeof is_prepared);
    for (;;) ::pause();
  }
  ::close(ready[1]);
  ready_ = ::read(end.get(), &ready_, sizeof ready_) == sizeof ready_ && ready_;
}

UsersMounts::~UsersMounts() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

std::string UsersMounts::seen(const std::string& path) const {
  return "/proc/" + std::to_string(pid_) + "/root" + path;
}

bool mount_overlay(const std::string& lower, const std::string& other_lower,
                   const std::string& at) {
  const std::string options = "lowerdir=" + lower + ":" + other_lower;
  return ::mount("overlay", at.c_str(), "overlay", 0, options.c_str()) == 0;
}

}  // namespace profd::test
