#include "collectors/files/debug_file_places.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <utility>

#include "collectors/files/reach.h"
#include "collectors/host/mounts.h"
#include "formats/base/whole_file.h"

namespace profd {
namespace {

constexpr int kDebugFileFlags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
constexpr std::uint64_t kMaxDebugFileBytes = std::uint64_t{4} << 30;

// An O_PATH descriptor is checked, so that a FIFO or a device is never opened. Nothing here waits
// for the file system.
std::optional<DebugFileRefusal> refusal_of_place(const UniqueFd& place, const struct statx& status,
                                                 std::uint32_t owner, std::uint32_t tgid) {
  const MountFacts mount = mount_of(place.get(), tgid);
  if (mount.may_hang) return DebugFileRefusal::kOnFuse;
  if (!S_ISREG(status.stx_mode)) return DebugFileRefusal::kNotRegular;
  if (status.stx_uid != 0 && status.stx_uid != owner) return DebugFileRefusal::kForeignOwner;
  if (status.stx_uid == 0 && (status.stx_mode & S_IROTH) == 0) {
    return DebugFileRefusal::kNotReadable;
  }
  // By a bind mount, /proc/PID/cmdline is root's file at this path, with the user's text.
  if (status.stx_uid == 0 && mount.is_of_users) return DebugFileRefusal::kUserMount;
  if (status.stx_size > kMaxDebugFileBytes) return DebugFileRefusal::kTooLarge;
  return std::nullopt;
}

// Whether those who see the names may see what is in a private file of this owner.
bool may_see_private(NameAudience audience, std::uint32_t owner) {
  return audience == NameAudience::kRoot || (audience == NameAudience::kOwner && owner != 0);
}

// Adds the file if there is one.
void add_at(int root, const std::string& path, DebugFilePlace kind, const DebugFileQuery& query,
            std::uint32_t tgid, std::vector<DebugFileAt>& found) {
  const UniqueFd place =
      open_resolved(root, path, O_PATH | O_CLOEXEC, RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS);
  if (!place.valid()) {
    if (errno != ELOOP) return;
    found.push_back({.place = kind, .refusal = DebugFileRefusal::kSymbolicLink});
    return;
  }
  DebugFileAt& file = found.emplace_back(DebugFileAt{.place = kind});
  struct statx status {};
  constexpr int kFlags = AT_EMPTY_PATH | AT_STATX_DONT_SYNC;
  const bool is_known = ::statx(place.get(), "", kFlags, STATX_BASIC_STATS, &status) == 0;
  file.refusal = is_known ? refusal_of_place(place, status, query.owner, tgid)
                          : std::optional(DebugFileRefusal::kNotRegular);
  if (file.refusal) return;
  file.is_private =
      (status.stx_mode & S_IROTH) == 0 || !may_be_reached_by_others(root, path, place.get());
  if (file.is_private && !may_see_private(query.audience, status.stx_uid)) {
    file.refusal = DebugFileRefusal::kNotReadable;
    return;
  }
  file.fd.reset(::open(("/proc/self/fd/" + std::to_string(place.get())).c_str(), kDebugFileFlags));
  // Refused by a lease, for instance.
  if (!file.fd.valid()) file.refusal = DebugFileRefusal::kLate;
}

// As the header says of the cache.
bool is_usable_cache(int directory) {
  struct stat status {};
  return ::fstat(directory, &status) == 0 && status.st_uid == 0 && (status.st_mode & S_IWOTH) == 0;
}

}  // namespace

std::optional<DebugFileAt> open_in_host(const DebugFileQuery& query, const std::string& root) {
  UnwindSource source;
  source.build_id = query.build_id;
  UniqueFd fd = open_debug_file(source, query.path, root);
  if (!fd.valid()) return std::nullopt;
  DebugFileAt file{.place = DebugFilePlace::kHost};
  file.is_private = !may_be_reached_by_others(fd.get());
  if (file.is_private && query.audience != NameAudience::kRoot) {
    file.refusal = DebugFileRefusal::kNotReadable;
  } else {
    file.fd = std::move(fd);
  }
  return file;
}

std::optional<DebugFileAt> open_in_cache(const DebugFileQuery& query, const std::string& cache) {
  const std::string path = debug_path_of(query.build_id);
  const UniqueFd directory(::open(cache.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (path.empty() || !directory.valid() || !is_usable_cache(directory.get())) return std::nullopt;
  // A member of the group may mount a file system of his own on a directory that he made.
  const UniqueFd place = open_resolved(directory.get(), path, O_PATH | O_CLOEXEC,
                                       RESOLVE_BENEATH | RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS);
  struct stat status {};
  if (!place.valid() || ::fstat(place.get(), &status) != 0) return std::nullopt;
  DebugFileAt file{.place = DebugFilePlace::kCache};
  if (!S_ISREG(status.st_mode)) {
    file.refusal = DebugFileRefusal::kNotRegular;
  } else if (static_cast<std::uint64_t>(status.st_size) > kMaxDebugFileBytes) {
    file.refusal = DebugFileRefusal::kTooLarge;
  } else {
    file.fd.reset(
        ::open(("/proc/self/fd/" + std::to_string(place.get())).c_str(), kDebugFileFlags));
    if (!file.fd.valid()) file.refusal = DebugFileRefusal::kLate;
  }
  return file;
}

std::vector<DebugFileAt> open_in_root(int root, std::uint32_t tgid, const DebugFileQuery& query) {
  std::vector<DebugFileAt> found;
  const auto add = [&](const std::string& path, DebugFilePlace kind) {
    add_at(root, path, kind, query, tgid, found);
  };
  if (const std::string path = debug_path_of(query.build_id); !path.empty()) {
    add(std::string(kDebugRoot) + "/" + path, DebugFilePlace::kProcess);
  }
  const std::string& link = query.debug_link;
  if (link.empty() || link.find('/') != link.npos || !query.path.starts_with('/')) return found;
  const std::string directory = query.path.substr(0, query.path.rfind('/') + 1);
  // A file that is its own debug file adds nothing.
  if (directory + link != query.path) add(directory + link, DebugFilePlace::kLink);
  add(directory + ".debug/" + link, DebugFilePlace::kLink);
  add(kDebugRoot + directory + link, DebugFilePlace::kLink);
  return found;
}

std::vector<DebugFileAt> open_in_root_of(std::uint32_t tgid, const DebugFileQuery& query) {
  const std::string path = tgid == 0 ? "/" : "/proc/" + std::to_string(tgid) + "/root";
  const UniqueFd root(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root.valid()) return {};
  return open_in_root(root.get(), tgid, query);
}

// Asks no file system of the process, which may hang.
RootId root_id_of(std::uint32_t tgid) {
  const std::string process = "/proc/" + std::to_string(tgid);
  struct stat mounts {};
  if (tgid == 0 || ::stat((process + "/ns/mnt").c_str(), &mounts) != 0) return {};
  std::array<char, PATH_MAX> root{};
  const ssize_t bytes = ::readlink((process + "/root").c_str(), root.data(), root.size());
  if (bytes <= 0) return {};
  return {mounts.st_dev, mounts.st_ino, std::string(root.data(), static_cast<std::size_t>(bytes))};
}

bool has_other_mounts(std::uint32_t tgid) {
  struct stat theirs {};
  struct stat own {};
  const std::string path = "/proc/" + std::to_string(tgid) + "/ns/mnt";
  return ::stat(path.c_str(), &theirs) == 0 && ::stat("/proc/self/ns/mnt", &own) == 0 &&
         (theirs.st_dev != own.st_dev || theirs.st_ino != own.st_ino);
}

}  // namespace profd
