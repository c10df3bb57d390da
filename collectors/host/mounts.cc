#include "collectors/host/mounts.h"

#include <algorithm>
#include <vector>

#include "formats/base/whole_file.h"
#include "formats/proc/mountinfo.h"

namespace profd {
namespace {

std::vector<Mount> mounts_of(const std::string& process) {
  const auto text = read_whole_file("/proc/" + process + "/mountinfo");
  return text ? parse_mountinfo(*text) : std::vector<Mount>();
}

}  // namespace

std::string find_cgroup_mount() {
  const std::vector<Mount> mounts = mounts_of("self");
  const auto cgroup = std::ranges::find(mounts, "cgroup2", &Mount::file_system);
  return cgroup == mounts.end() ? std::string() : cgroup->mount_point;
}

// A process sees only the mounts below its own root. The mount that the root of a chroot lies in is
// in the list of a process outside.
bool is_fuse_mount(std::uint64_t mount_id, std::uint32_t tgid) {
  for (const std::string& process : {std::string("self"), std::to_string(tgid), std::string("1")}) {
    const std::vector<Mount> mounts = mounts_of(process);
    const auto mount = std::ranges::find(mounts, mount_id, &Mount::id);
    if (mount != mounts.end()) return is_fuse(mount->file_system);
  }
  return true;
}

}  // namespace profd
