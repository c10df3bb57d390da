// What the lists of mounts in /proc say.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "formats/proc/mountinfo.h"

namespace profd {

// Where the host's cgroup v2 hierarchy is mounted: /sys/fs/cgroup, or /sys/fs/cgroup/unified beside
// v1 hierarchies; empty where there is none.
[[nodiscard]] std::string find_cgroup_mount();

// What is read of the list of mounts of a process. A user can make any mounts in a namespace of the
// user's own: a list of 800 MB, or one of 4 MB for which the kernel takes half a minute. That of a
// container takes less than 1 ms, and a list of 4 MB with long paths 30 ms.
inline constexpr MountListLimits kMountListLimits{.bytes = std::size_t{4} << 20,
                                                  .cpu_time = std::chrono::milliseconds(50)};

// The same of the lists that profd and process 1 see: root fills them, and users can have 1000 FUSE
// mounts each there.
inline constexpr MountListLimits kHostMountListLimits{.bytes = std::size_t{64} << 20,
                                                      .cpu_time = std::chrono::milliseconds(1000)};

// The mounts of a device (major << 20 | minor) that profd sees. Another mount may hide one of them.
[[nodiscard]] std::vector<Mount> mounts_of_device(std::uint32_t device);

// The mount that a file lies in. What is not known is assumed to be the worst.
struct MountFacts {
  // A call for the file may wait for a process that never answers, and cannot be interrupted: the
  // file lies on FUSE, or on an overlay of users, which may have FUSE as a layer. statfs() of such
  // an overlay may hang as well.
  bool may_hang = true;
  // An unprivileged user made the mounts there. A bind mount gives any file any path.
  bool is_of_users = true;
  // The caller or root mounted a FUSE file system among profd's mounts or those of process 1, so
  // no other user's process answers for it.
  bool is_served_by_own = false;
};

// By the id of the mount, in the lists of mounts that profd, the process `tgid` (0: none) and
// process 1 see. So the namespace of the mount counts: a process can have its root in a mount
// namespace that is not its own. `fd` may be an O_PATH descriptor. No file system is asked. A mount
// beyond kMountListLimits is not known.
[[nodiscard]] MountFacts mount_of(int fd, std::uint32_t tgid);

// Whether unprivileged users make the mounts of the process with this directory in /proc: another
// user namespace than profd's owns its mount namespace. True also where that is not known.
[[nodiscard]] bool mounts_of_users(int proc_directory);

}  // namespace profd
