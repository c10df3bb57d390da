#include "collectors/host/cgroup_mount.h"

#include <algorithm>
#include <vector>

#include "formats/base/whole_file.h"
#include "formats/proc/mountinfo.h"

namespace profd {

std::string find_cgroup_mount() {
  const auto text = read_whole_file("/proc/self/mountinfo");
  if (!text) return {};
  const std::vector<Mount> mounts = parse_mountinfo(*text);
  const auto cgroup = std::ranges::find(mounts, "cgroup2", &Mount::file_system);
  return cgroup == mounts.end() ? std::string() : cgroup->mount_point;
}

}  // namespace profd
