#include "collectors/host/mounts.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "formats/base/unique_fd.h"

namespace profd {
namespace {

UniqueFd open_process(const std::string& process) {
  return UniqueFd(::open(("/proc/" + process).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

using Visit = std::function<bool(const Mount&)>;

void visit_mounts_seen_by(const UniqueFd& process, const MountListLimits& limits,
                          const Visit& visit) {
  if (!process.valid()) return;
  const UniqueFd list(::openat(process.get(), "mountinfo", O_RDONLY | O_CLOEXEC));
  if (list.valid()) visit_mounts(list.get(), limits, visit);
}

void visit_own_mounts(const Visit& visit) {
  visit_mounts_seen_by(open_process("self"), kHostMountListLimits, visit);
}

// None where the process does not see the mount, or it is beyond the limits.
std::optional<Mount> find_mount(std::uint64_t mount_id, const UniqueFd& process,
                                const MountListLimits& limits) {
  std::optional<Mount> found;
  visit_mounts_seen_by(process, limits, [&](const Mount& mount) {
    if (mount.id == mount_id) found = mount;
    return !found;
  });
  return found;
}

}  // namespace

std::string find_cgroup_mount() {
  std::string found;
  visit_own_mounts([&found](const Mount& mount) {
    if (mount.file_system == "cgroup2") found = mount.mount_point;
    return found.empty();
  });
  return found;
}

std::vector<Mount> mounts_of_device(std::uint32_t device) {
  std::vector<Mount> mounts;
  visit_own_mounts([&mounts, device](const Mount& mount) {
    if (mount.device == device) mounts.push_back(mount);
    return true;
  });
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
    const bool is_hosts = name == own || name == first;
    const auto mount =
        find_mount(status.stx_mnt_id, process, is_hosts ? kHostMountListLimits : kMountListLimits);
    if (!mount) continue;
    const bool is_of_users = !is_hosts && mounts_of_users(process.get());
    const bool is_of_own_user =
        mount->fuse_user && (*mount->fuse_user == 0 || *mount->fuse_user == ::geteuid());
    return {
        .may_hang = is_fuse(mount->file_system) || (is_of_users && is_overlay(mount->file_system)),
        .is_of_users = is_of_users,
        .is_served_by_own = is_hosts && is_of_own_user};
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
