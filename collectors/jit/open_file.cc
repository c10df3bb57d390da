#include "collectors/jit/open_file.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "collectors/host/clock.h"
#include "collectors/host/mounts.h"
#include "formats/base/whole_file.h"

namespace profd {
namespace {

constexpr int kReadFlags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;

bool stat_all(int fd, struct statx& status) {
  return stat_cached(fd, STATX_BASIC_STATS | STATX_BTIME, status);
}

bool is_private(const struct statx& status) {
  return status.stx_uid == 0 && (status.stx_mode & S_IROTH) == 0;
}

// A file of root's names the code of a user's process only if the user may read it, and if root
// chose its path. A bind mount gives any file of root's the name of a perf map.
std::optional<JitRefusal> refusal_of_roots(const struct statx& status, bool is_mounted_by_users,
                                           const JitFileRules& rules) {
  if (status.stx_uid != 0) return std::nullopt;
  if (is_mounted_by_users) return JitRefusal::kUserMount;
  if (!rules.any_owner && rules.uid != 0 && is_private(status)) return JitRefusal::kNotReadable;
  return std::nullopt;
}

std::optional<JitRefusal> refusal_of(const struct statx& status, const JitFileRules& rules) {
  if (S_ISLNK(status.stx_mode)) return JitRefusal::kLink;
  if (!S_ISREG(status.stx_mode)) return JitRefusal::kNotRegular;
  if (!rules.any_owner && status.stx_uid != rules.uid && status.stx_uid != 0) {
    return JitRefusal::kForeignOwner;
  }
  // A user may make a hard link with another process's name to a map that he may not write.
  if (rules.kind == JitFileKind::kPerfMap && status.stx_nlink != 1) return JitRefusal::kLink;
  if (status.stx_size > kMaxJitFileBytes) return JitRefusal::kTooLarge;
  if (nanoseconds_of(status.stx_mtime) < rules.not_before_ns) return JitRefusal::kStale;
  return std::nullopt;
}

JitRefusal refusal_of_open(int error) {
  switch (error) {
    case EWOULDBLOCK:
      return JitRefusal::kLeased;
    case ELOOP:
      return JitRefusal::kLink;
    default:
      return JitRefusal::kNotPermitted;
  }
}

// Checks the file behind an O_PATH descriptor, and opens it.
JitOpening open_found(const UniqueFd& place, std::string path, const JitFileRules& rules) {
  struct statx status {};
  if (!stat_all(place.get(), status)) return {.refusal = JitRefusal::kNotPermitted};
  const MountFacts mount = mount_of(place.get(), rules.tgid);
  if (mount.may_hang) return {.refusal = JitRefusal::kOnFuse};
  if (const auto refusal = refusal_of(status, rules)) return {.refusal = refusal};
  if (const auto refusal = refusal_of_roots(status, mount.is_of_users, rules)) {
    return {.refusal = refusal};
  }
  UniqueFd fd(::open(("/proc/self/fd/" + std::to_string(place.get())).c_str(), kReadFlags));
  if (!fd.valid()) return {.refusal = refusal_of_open(errno)};
  const std::uint32_t owner = status.stx_uid == 0 ? rules.real_uid : status.stx_uid;
  return {.file = std::make_shared<const JitFile>(
              JitFile{.id = {.device = device_of(status), .inode = status.stx_ino, .owner = owner},
                      .kind = rules.kind,
                      .path = std::move(path),
                      .is_private = is_private(status),
                      .changed_ns = nanoseconds_of(status.stx_ctime),
                      .born_ns = nanoseconds_of(status.stx_btime),
                      .fd = std::make_shared<const UniqueFd>(std::move(fd))})};
}

JitOpening not_found(int error) {
  if (error == ENOENT || error == ESRCH || error == ENOTDIR) return {};
  return {.refusal = refusal_of_open(error)};
}

}  // namespace

bool stat_cached(int fd, unsigned mask, struct statx& status) {
  return ::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, mask, &status) == 0;
}

bool is_same_file(const JitFile& a, const JitFile& b) {
  return a.id.device == b.id.device && a.id.inode == b.id.inode;
}

std::shared_ptr<const JitFile> with_owner(const JitFile& file, std::uint32_t owner) {
  JitFile copy = file;
  copy.id.owner = owner;
  return std::make_shared<const JitFile>(std::move(copy));
}

JitDirectory open_directory_of(int proc_directory, std::uint32_t tgid, const char* link,
                               const std::string& path) {
  const UniqueFd base(::openat(proc_directory, link, O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!base.valid()) return {};
  const bool may_hang = mount_of(base.get(), tgid).may_hang;
  JitDirectory found{.fd = open_resolved(base.get(), path, O_PATH | O_DIRECTORY | O_CLOEXEC,
                                         RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS |
                                             (may_hang ? RESOLVE_CACHED : 0U))};
  if (may_hang && !found.fd.valid() && errno != ENOENT) found.refusal = JitRefusal::kOnFuse;
  return found;
}

JitOpening open_jit_file(int directory, const std::string& name, const JitFileRules& rules) {
  // The directory is checked first: looking a name up asks its file system.
  if (mount_of(directory, rules.tgid).may_hang) return {.refusal = JitRefusal::kOnFuse};
  const UniqueFd place = open_resolved(directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC,
                                       RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
  if (!place.valid()) return not_found(errno);
  return open_found(place, rules.shown_in + name, rules);
}

JitOpening open_mapped_jit_file(int proc_directory, const char* link, const std::string& path,
                                const JitFileRules& rules) {
  // This follows the link, which only the kernel can make.
  const UniqueFd place(::openat(proc_directory, link, O_PATH | O_CLOEXEC));
  if (!place.valid()) return not_found(errno);
  return open_found(place, path, rules);
}

}  // namespace profd
