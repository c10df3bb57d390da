#include "collectors/host/find_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "collectors/host/mounts.h"
#include "formats/base/errors.h"
#include "formats/base/whole_file.h"

namespace profd {
namespace {

// File systems whose files look regular, and are made by the kernel. To read some of them has
// effects: /proc/kmsg and trace_pipe lose what is read.
constexpr std::uint32_t kConfigfsMagic = 0x62656570;
constexpr std::uint32_t kFusectlMagic = 0x65735543;
constexpr std::uint32_t kPidfsMagic = 0x50494446;
constexpr std::uint32_t kApparmorMagic = 0x5a3c69f0;
constexpr std::uint32_t kMqueueMagic = 0x19800202;
constexpr auto kKernelFileSystems = std::to_array<std::uint32_t>(
    {PROC_SUPER_MAGIC,     SYSFS_MAGIC,        TRACEFS_MAGIC,       DEBUGFS_MAGIC,
     SECURITYFS_MAGIC,     CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, BPF_FS_MAGIC,
     EFIVARFS_MAGIC,       SELINUX_MAGIC,      SMACK_MAGIC,         NSFS_MAGIC,
     RDTGROUP_SUPER_MAGIC, BINFMTFS_MAGIC,     ANON_INODE_FS_MAGIC, kConfigfsMagic,
     kFusectlMagic,        kPidfsMagic,        kApparmorMagic,      kMqueueMagic});

constexpr int kMaxLinks = 40;  // MAXSYMLINKS of the kernel

// What the kernel has cached, since a file system that does not answer cannot be asked.
std::optional<struct statx> cached_status(int fd, unsigned mask) {
  struct statx status {};
  const int flags = AT_EMPTY_PATH | AT_STATX_DONT_SYNC;
  if (::statx(fd, "", flags, mask, &status) != 0) return std::nullopt;
  return status;
}

bool is_made_by_kernel(int fd) {
  struct statfs file_system {};
  return ::fstatfs(fd, &file_system) == 0 &&
         std::ranges::find(kKernelFileSystems, static_cast<std::uint32_t>(file_system.f_type)) !=
             kKernelFileSystems.end();
}

UniqueFd open_directory(const char* path) {
  return UniqueFd(::open(path, O_PATH | O_DIRECTORY | O_CLOEXEC));
}

// Whether the file lies on a mount that the kernel alone has, which is in no list: that of pipes
// and namespaces, whose names are no paths, and that of memfds. The file system is not asked.
bool is_on_mount_of_kernel(int fd) {
  std::array<char, 16> name{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  if (::readlink(link.c_str(), name.data(), name.size()) <= 0) return false;
  if (name.front() != '/' && name.front() != '(') return true;  // "(unreachable)/path"
  const UniqueFd memfd(::memfd_create("profctl", MFD_CLOEXEC));
  struct stat of_memfd {};
  const auto status = cached_status(fd, STATX_INO);
  return memfd.valid() && status && ::fstat(memfd.get(), &of_memfd) == 0 &&
         of_memfd.st_dev == ::makedev(status->stx_dev_major, status->stx_dev_minor);
}

class PathWalk {
 public:
  explicit PathWalk(const std::string& path) : path_(path), rest_(path) {}

  Result<UniqueFd> walk() {
    if (path_.empty()) return failed(ENOENT);
    at_ = open_directory(path_.front() == '/' ? "/" : ".");
    if (!at_.valid()) return failed(errno);
    for (std::string name = next_name(); !name.empty(); name = next_name()) {
      if (auto stepped = step(name); !stepped) return stepped.error();
    }
    if (may_hang()) return refused();
    return std::move(at_);
  }

 private:
  [[nodiscard]] Error failed(int error) const {
    return fail_errno("could not open " + path_, error);
  }
  [[nodiscard]] Error refused() const {
    return fail(ErrorCode::kPermissionDenied,
                path_ + " lies on a file system of another user, which may never answer",
                "as that user, copy the file to a directory outside it");
  }

  // Empty at the end of the path.
  std::string next_name() {
    rest_.erase(0, std::min(rest_.find_first_not_of('/'), rest_.size()));
    std::string name = rest_.substr(0, rest_.find('/'));
    rest_.erase(0, name.size());
    return name;
  }

  // A mount keeps its id while a descriptor is open on it.
  bool may_hang() {
    const auto status = cached_status(at_.get(), STATX_MNT_ID);
    const std::uint64_t mount = status ? status->stx_mnt_id : 0;
    if (mount == 0 || mount != mount_) {
      const MountFacts facts = mount_of(at_.get(), process_);
      mount_ = mount;
      may_hang_ = facts.may_hang && !facts.is_served_by_own && !is_on_mount_of_kernel(at_.get());
    }
    return may_hang_;
  }

  Result<void> step(const std::string& name) {
    const bool is_cached_only = may_hang();
    const bool is_in_proc = !is_cached_only && enters_process(name);
    // An automount mounts for statx(), but not for an open with O_PATH.
    struct statx ignored {};
    if (!is_cached_only) {
      (void)::statx(at_.get(), name.c_str(), AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC, 0, &ignored);
    }
    // The kernel follows links of /proc, which lead to files that it knows, or stay in /proc.
    UniqueFd next = open_resolved(
        at_.get(), name, O_PATH | O_CLOEXEC | (is_in_proc ? 0U : std::uint64_t{O_NOFOLLOW}),
        is_cached_only ? RESOLVE_CACHED : 0U);
    if (!next.valid()) return is_cached_only && errno == EAGAIN ? refused() : failed(errno);
    const auto status = cached_status(next.get(), STATX_TYPE | STATX_UID);
    if (status && S_ISLNK(status->stx_mode)) {
      if (is_cached_only) return refused();
      return follow(next.get(), status->stx_uid);
    }
    at_ = std::move(next);
    return {};
  }

  // Whether it is a name in /proc. Below /proc/PID, mounts are those that this process sees.
  bool enters_process(std::string_view name) {
    struct statfs file_system {};
    if (::fstatfs(at_.get(), &file_system) != 0 || file_system.f_type != PROC_SUPER_MAGIC) {
      return false;
    }
    // A number elsewhere in /proc is that of a thread or a descriptor.
    constexpr std::uint64_t kRootOfProc = 1;
    const auto status = cached_status(at_.get(), STATX_INO);
    if (!status || status->stx_ino != kRootOfProc) return true;
    std::uint32_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error == std::errc() && end == name.data() + name.size()) process_ = pid;
    return true;
  }

  Result<void> follow(int link, uid_t owner) {
    if (++links_ > kMaxLinks) return failed(ELOOP);
    if (is_protected(owner)) return failed(EACCES);
    std::array<char, PATH_MAX> target{};
    const ssize_t bytes = ::readlinkat(link, "", target.data(), target.size());
    if (bytes <= 0) return failed(bytes == 0 ? ENOENT : errno);
    rest_.insert(0, target.data(), static_cast<std::size_t>(bytes));
    if (target.front() != '/') return {};
    at_ = open_directory("/");
    return at_.valid() ? Result<void>() : failed(errno);
  }

  // As fs.protected_symlinks: a user's link in a directory like /tmp leads no other user anywhere.
  [[nodiscard]] bool is_protected(uid_t owner) const {
    constexpr unsigned kShared = S_ISVTX | S_IWOTH;
    const auto directory = cached_status(at_.get(), STATX_MODE | STATX_UID);
    return !directory || ((directory->stx_mode & kShared) == kShared && owner != ::geteuid() &&
                          owner != directory->stx_uid);
  }

  const std::string& path_;
  std::string rest_;  // of the path, and of links
  UniqueFd at_;
  std::uint32_t process_ = 0;
  std::uint64_t mount_ = 0;
  bool may_hang_ = true;
  int links_ = 0;
};

}  // namespace

Result<UniqueFd> find_file(const std::string& path) {
  if (::geteuid() == 0) return PathWalk(path).walk();
  UniqueFd found(::open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!found.valid()) return fail_errno("could not open " + path);
  return found;
}

Result<UniqueFd> open_regular_file(const std::string& path) {
  const auto found = find_file(path);
  if (!found) return found.error();
  struct stat info {};
  if (::fstat(found->get(), &info) != 0) return fail_errno("could not check " + path);
  if (!S_ISREG(info.st_mode)) {
    return invalid_argument(path + " is not a regular file", "store it in a file first");
  }
  if (is_made_by_kernel(found->get())) {
    return invalid_argument(path + " is a file that the kernel makes, as those in /proc",
                            "name a file on a disk");
  }
  const std::string by_number = "/proc/self/fd/" + std::to_string(found->get());
  UniqueFd fd(::open(by_number.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid()) return fail_errno("could not open " + path);
  return fd;
}

}  // namespace profd
