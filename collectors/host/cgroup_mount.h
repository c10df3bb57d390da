// Where the host's cgroup v2 hierarchy is mounted.

#pragma once

#include <string>

namespace profd {

// /sys/fs/cgroup, or /sys/fs/cgroup/unified beside v1 hierarchies; empty where there is none.
[[nodiscard]] std::string find_cgroup_mount();

}  // namespace profd
