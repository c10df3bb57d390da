// A user namespace for a test's child process, also where the tests run in a chroot: the kernel
// makes none for a process that is in one (create_user_ns, EPERM).
//
// Only system calls, as befits a child between fork and exec. The process must have one thread.

#pragma once

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

namespace profd::test {

// To be called as root, so before a change of ids. Joining the mount namespace that it is in anyway
// puts a process at that namespace's root, which no chroot is. Returns the former root, or -1.
inline int leave_chroot() {
  const int root = ::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  const int mounts = ::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
  return mounts >= 0 && ::setns(mounts, CLONE_NEWNS) == 0 ? root : -1;
}

// The new namespace comes with all capabilities, that for chroot among them: `former_root` is the
// root again.
inline bool enter_user_namespace(int former_root) {
  return ::unshare(CLONE_NEWUSER) == 0 && ::fchdir(former_root) == 0 && ::chroot(".") == 0;
}

}  // namespace profd::test
