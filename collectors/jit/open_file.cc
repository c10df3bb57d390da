#include "collectors/jit/open_file.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "collectors/files/fuse_mount.h"
#include "collectors/host/clock.h"

namespace profd {
namespace {

constexpr int kReadFlags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{16} << 30;

UniqueFd open_inside(int directory, const std::string& path, std::uint64_t flags,
                     std::uint64_t resolve) {
  open_how how{};
  how.flags = flags | O_PATH | O_CLOEXEC;
  how.resolve = resolve;
  return UniqueFd(
      static_cast<int>(::syscall(SYS_openat2, directory, path.c_str(), &how, sizeof(how))));
}

// What can be known without asking the file system: a FUSE one may never answer.
bool look_at(int place, struct statx& status) {
  constexpr unsigned kWanted = STATX_BASIC_STATS | STATX_BTIME | STATX_MNT_ID;
  return ::statx(place, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, kWanted, &status) == 0 &&
         (status.stx_mask & STATX_MNT_ID) != 0;
}

std::optional<JitRefusal> refusal_of(const struct statx& status, const JitFileRules& rules) {
  if (S_ISLNK(status.stx_mode)) return JitRefusal::kLink;
  if (!S_ISREG(status.stx_mode)) return JitRefusal::kNotRegular;
  if (!rules.any_owner && status.stx_uid != rules.uid && status.stx_uid != 0) {
    return JitRefusal::kForeignOwner;
  }
  // Who may not write a map may still lay a link to it under another process's name.
  if (rules.kind == JitFileKind::kPerfMap && status.stx_nlink != 1) return JitRefusal::kLink;
  if (status.stx_size > kMaxFileBytes) return JitRefusal::kTooLarge;
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

JitOpening open_place(const UniqueFd& place, std::string path, const JitFileRules& rules) {
  struct statx status {};
  if (!look_at(place.get(), status)) return {.file = {}, .refusal = JitRefusal::kNotPermitted};
  if (is_fuse_mount(status.stx_mnt_id, rules.tgid)) {
    return {.file = {}, .refusal = JitRefusal::kOnFuse};
  }
  if (const auto refusal = refusal_of(status, rules)) return {.file = {}, .refusal = refusal};
  UniqueFd fd(::open(("/proc/self/fd/" + std::to_string(place.get())).c_str(), kReadFlags));
  if (!fd.valid()) return {.file = {}, .refusal = refusal_of_open(errno)};
  const std::uint64_t device =
      std::uint64_t{status.stx_dev_major} << 32 | std::uint64_t{status.stx_dev_minor};
  const std::uint32_t payer = status.stx_uid == 0 ? rules.payer : status.stx_uid;
  return {.file = std::make_shared<const JitFile>(
              JitFile{.id = {.device = device, .inode = status.stx_ino, .payer = payer},
                      .kind = rules.kind,
                      .path = std::move(path),
                      .owner = payer,
                      .changed_ns = nanoseconds_of(status.stx_ctime),
                      .born_ns = nanoseconds_of(status.stx_btime),
                      .fd = std::move(fd)}),
          .refusal = {}};
}

JitOpening nothing_there(int error) {
  if (error == ENOENT || error == ESRCH || error == ENOTDIR) return {};
  return {.file = {}, .refusal = refusal_of_open(error)};
}

}  // namespace

bool is_same_file(const JitFile& a, const JitFile& b) {
  return a.id.device == b.id.device && a.id.inode == b.id.inode;
}

std::shared_ptr<const JitFile> with_payer(const JitFile& file, std::uint32_t payer) {
  UniqueFd fd(::fcntl(file.fd.get(), F_DUPFD_CLOEXEC, 0));
  if (!fd.valid()) return nullptr;
  JitFileId id = file.id;
  id.payer = payer;
  return std::make_shared<const JitFile>(JitFile{.id = id,
                                                 .kind = file.kind,
                                                 .path = file.path,
                                                 .owner = payer,
                                                 .changed_ns = file.changed_ns,
                                                 .born_ns = file.born_ns,
                                                 .fd = std::move(fd)});
}

UniqueFd open_directory_of(int proc_directory, const char* link, const std::string& path) {
  const UniqueFd base(::openat(proc_directory, link, O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!base.valid()) return {};
  return open_inside(base.get(), path, O_DIRECTORY, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

JitOpening open_jit_file(int directory, const std::string& name, const JitFileRules& rules) {
  // The directory first: to look a name up is to ask its file system.
  struct statx status {};
  if (!look_at(directory, status)) return {};
  if (is_fuse_mount(status.stx_mnt_id, rules.tgid)) {
    return {.file = {}, .refusal = JitRefusal::kOnFuse};
  }
  const UniqueFd place =
      open_inside(directory, name, O_NOFOLLOW, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
  if (!place.valid()) return nothing_there(errno);
  return open_place(place, rules.shown_in + name, rules);
}

JitOpening open_mapped_jit_file(int proc_directory, const char* link, const std::string& path,
                                const JitFileRules& rules) {
  // Follows the link, which only the kernel can make.
  const UniqueFd place(::openat(proc_directory, link, O_PATH | O_CLOEXEC));
  if (!place.valid()) return nothing_there(errno);
  return open_place(place, path, rules);
}

}  // namespace profd
