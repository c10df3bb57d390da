// What the lists of mounts in /proc say.

#pragma once

#include <cstdint>
#include <string>

namespace profd {

// Where the host's cgroup v2 hierarchy is mounted: /sys/fs/cgroup, or /sys/fs/cgroup/unified beside
// v1 hierarchies; empty where there is none.
[[nodiscard]] std::string find_cgroup_mount();

// Whether a file lies on a FUSE file system. The process that serves such a file system may never
// answer, and a call that waits for it cannot be interrupted.
//
// By the mount's id (stx_mnt_id of statx()) in the lists of mounts that profd, the process `tgid`
// (0: none) and process 1 see. True also for a mount in none of the lists.
[[nodiscard]] bool is_fuse_mount(std::uint64_t mount_id, std::uint32_t tgid);

}  // namespace profd
