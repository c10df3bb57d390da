#include "collectors/files/fuse_mount.h"

#include <algorithm>
#include <string>

#include "formats/base/whole_file.h"
#include "formats/proc/mountinfo.h"

namespace profd {

// A process sees only the mounts below its own root. The mount that the root of a chroot lies in is
// in the list of a process outside.
bool is_fuse_mount(std::uint64_t mount_id, std::uint32_t tgid) {
  for (const std::string& process : {std::string("self"), std::to_string(tgid), std::string("1")}) {
    const auto text = read_whole_file("/proc/" + process + "/mountinfo");
    if (!text) continue;
    const std::vector<Mount> mounts = parse_mountinfo(*text);
    const auto mount = std::ranges::find(mounts, mount_id, &Mount::id);
    if (mount != mounts.end()) return is_fuse(mount->file_system);
  }
  return true;
}

}  // namespace profd
