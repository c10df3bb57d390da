#include "collectors/host/mounts.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <vector>

#include "formats/base/unique_fd.h"
#include "formats/base/whole_file.h"
#include "formats/proc/mountinfo.h"

namespace profd {
namespace {

UniqueFd open_process(const std::string& process) {
  return UniqueFd(::open(("/proc/" + process).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

std::vector<Mount> mounts_seen_by(const UniqueFd& process) {
  if (!process.valid()) return {};
  const auto text = read_whole_file("mountinfo", process.get());
  return text ? parse_mountinfo(*text) : std::vector<Mount>();
}

}  // namespace

std::string find_cgroup_mount() {
  const std::vector<Mount> mounts = mounts_seen_by(open_process("self"));
  const auto cgroup = std::ranges::find(mounts, "cgroup2", &Mount::file_system);
  return cgroup == mounts.end() ? std::string() : cgroup->mount_point;
}

std::vector<Mount> mounts_of_device(std::uint32_t device) {
  std::vector<Mount> mounts = mounts_seen_by(open_process("self"));
  std::erase_if(mounts, [device](const Mount& mount) { return mount.device != device; });
  return mounts;
}

// The namespace is read after the list: a process may enter a mount namespace that a user owns
// between the two, but a process of users never enters one of root's.
MountFacts mount_of(int fd, std::uint32_t tgid) {
  struct statx status {};
  if (::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &status) != 0) return {};
  // A process sees only the mounts below its own root. The mount that the root of a chroot lies in
  // is in the list of a process outside.
  const std::string own = "self";
  const std::string first = "1";
  for (const std::string& name : {own, std::to_string(tgid), first}) {
    const UniqueFd process = open_process(name);
    const std::vector<Mount> mounts = mounts_seen_by(process);
    const auto mount = std::ranges::find(mounts, std::uint64_t{status.stx_mnt_id}, &Mount::id);
    if (mount == mounts.end()) continue;
    const bool is_of_users = name != own && name != first && mounts_of_users(process.get());
    return {
        .may_hang = is_fuse(mount->file_system) || (is_of_users && is_overlay(mount->file_system)),
        .is_of_users = is_of_users};
  }
  return {};
}

bool mounts_of_users(int proc_directory) {
  const UniqueFd mounts(::openat(proc_directory, "ns/mnt", O_RDONLY | O_CLOEXEC));
  if (!mounts.valid()) return true;
  const UniqueFd owner(::ioctl(mounts.get(), NS_GET_USERNS));
  struct stat theirs {};
  struct stat own {};
  return !owner.valid() || ::fstat(owner.get(), &theirs) != 0 ||
         ::stat("/proc/self/ns/user", &own) != 0 || theirs.st_dev != own.st_dev ||
         theirs.st_ino != own.st_ino;
}

}  // namespace profd
