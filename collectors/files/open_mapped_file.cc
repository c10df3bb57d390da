#include "collectors/files/open_mapped_file.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <utility>

#include "collectors/files/open_by_number.h"
#include "collectors/host/clock.h"
#include "collectors/host/mounts.h"
#include "formats/base/result.h"
#include "formats/base/whole_file.h"

namespace profd {
namespace {

// O_NONBLOCK: a write lease would stall an open of a regular file for 45 s.
constexpr int kReadFlags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
constexpr off_t kMaxFileBytes = off_t{4} << 30;
constexpr const char* kOnFuse =
    "on a FUSE file system or an overlay of users, which may not answer";
constexpr std::string_view kDeletedSuffix = " (deleted)";

// Device and inode are not compared where the change time is equal: on an overlay, fstat() returns
// the overlay's and the key has the layer's. An unlink or chmod changes the change time of a file
// that still has the bytes that ran.
bool same_content(const FileKey& key, const struct stat& status) {
  if (key.size_bytes != static_cast<std::uint64_t>(status.st_size)) return false;
  if (key.ctime_ns == nanoseconds_of(status.st_ctim)) return true;
  return key.inode == status.st_ino && nanoseconds_of(status.st_mtim) <= key.ctime_ns;
}

// A file of the device in the key is the one that the kernel sampled: BPF has checked where it
// lies. A file of another device may be an overlay's, or lie on FUSE: also one that was mapped at
// the sampled file's address since. Nothing here waits for the file system.
bool may_hang(int place, std::uint32_t device, std::uint32_t tgid) {
  struct statx status {};
  const int error = ::statx(place, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &status);
  if (error != 0) return true;
  if (device_of_key(status.stx_dev_major, status.stx_dev_minor) == device) return false;
  return mount_of(place, tgid).may_hang;
}

struct Opened {
  UniqueFd fd;
  struct stat status {};
  std::string error;
  bool is_temporary = false;
};

// EAGAIN: another process has a lease on the file.
bool is_temporary(int error) {
  return error == EAGAIN || error == EMFILE || error == ENFILE || error == ENOMEM;
}

void fail_open(Opened& opened) {
  opened.is_temporary = is_temporary(errno);
  opened.error = fail_errno("could not open it").message;
}

std::string refusal(const struct stat& status, const FileKey& key) {
  if (!S_ISREG(status.st_mode)) return "not a regular file";
  if (status.st_size > kMaxFileBytes) return "larger than 4 GiB";
  if (!same_content(key, status)) return "changed since it was sampled";
  return {};
}

// Opens a regular file through an O_PATH descriptor of it, so that a FIFO or a device is never
// opened, which could have side effects. On an overlay of users, the file is that of the layer.
Opened open_regular(UniqueFd place, const MappingPlace& mapping) {
  const FileKey& key = mapping.file;
  Opened opened;
  const bool is_on_overlay =
      place.valid() && may_hang(place.get(), key.device, mapping.process.tgid);
  if (is_on_overlay) place = place_by_number(key);
  if (!place.valid() && is_on_overlay) {
    opened.error = kOnFuse;
  } else if (!place.valid()) {
    fail_open(opened);
  } else if (::fstat(place.get(), &opened.status) != 0) {
    opened.error = fail_errno("could not stat it").message;
  } else {
    opened.error = refusal(opened.status, key);
  }
  if (!opened.error.empty()) return opened;
  const std::string link = "/proc/self/fd/" + std::to_string(place.get());
  opened.fd.reset(::open(link.c_str(), kReadFlags));
  if (!opened.fd.valid()) fail_open(opened);
  return opened;
}

// The link is followed: only the kernel makes the entries of map_files.
UniqueFd place_of_link(const std::string& link) {
  return UniqueFd(::open(link.c_str(), O_PATH | O_CLOEXEC));
}

// The kernel's names of a file have no symbolic links, so a link at the path now may be an attack.
// The names of a file that was run just now are cached, so no file system has to answer.
UniqueFd place_of_names(const std::string& path) {
  return open_resolved(AT_FDCWD, path, O_PATH | O_CLOEXEC,
                       RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_CACHED);
}

std::string map_files_path(std::uint32_t tgid, std::uint64_t start, std::uint64_t end) {
  std::array<char, 96> path{};
  std::snprintf(path.data(), path.size(), "/proc/%u/map_files/%lx-%lx", tgid, start, end);
  return path.data();
}

std::string read_link(const std::string& path) {
  std::array<char, PATH_MAX> target{};
  const ssize_t bytes = ::readlink(path.c_str(), target.data(), target.size());
  return bytes > 0 ? std::string(target.data(), static_cast<std::size_t>(bytes)) : std::string();
}

std::string_view name_in(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// A link target ends in " (deleted)" for a deleted file, and for a file with such a name. In the
// mounts of a user, a file has the name that the user chooses.
bool is_deleted(const std::string& link, const struct stat& status, const std::string& path) {
  if (!link.ends_with(kDeletedSuffix)) return false;
  if (status.st_nlink == 0) return true;
  if (name_in(link) == name_in(path)) return false;
  struct stat named {};
  return ::stat(link.c_str(), &named) != 0 || named.st_ino != status.st_ino;
}

MappedFile from_link(const MappingPlace& place, const std::string& link_path, Opened opened) {
  MappedFile file{.key = place.file,
                  .path = read_link(link_path),
                  .process = place.process,
                  .fd = std::move(opened.fd)};
  file.deleted = is_deleted(file.path, opened.status, place.path);
  if (file.deleted) file.path.resize(file.path.size() - kDeletedSuffix.size());
  file.set_status(opened.status);
  return file;
}

}  // namespace

MappingPlace place_of(const MappingView& mapping) {
  return {.file = mapping.file,
          .process = mapping.process,
          .start = mapping.start,
          .end = mapping.end,
          .on_fuse = mapping.on_fuse,
          .path = path_from_names(mapping.names)};
}

std::uint32_t user_of_process(std::uint32_t tgid) {
  struct stat status {};
  return ::stat(("/proc/" + std::to_string(tgid)).c_str(), &status) == 0 ? status.st_uid : 0;
}

MappedFile unopened(const MappingPlace& place, std::string why) {
  return {.key = place.file,
          .path = place.path.empty() ? "?" : place.path,
          .process = place.process,
          .error = std::move(why)};
}

MappedFile open_by_mapping(const MappingPlace& place) {
  // The server may never answer, and no call that waits for it can be interrupted.
  if (place.on_fuse) return unopened(place, kOnFuse);
  const std::string exact = map_files_path(place.process.tgid, place.start, place.end);
  Opened opened = open_regular(place_of_link(exact), place);
  if (!opened.fd.valid()) {
    MappedFile file = unopened(place, opened.error);
    file.may_open_later = opened.is_temporary;
    return file;
  }
  return from_link(place, exact, std::move(opened));
}

MappedFile open_by_names(const MappingPlace& place, const std::string& error) {
  if (place.on_fuse) return unopened(place, kOnFuse);
  MappedFile file = unopened(place, {});
  Opened opened = open_regular(place_of_names(file.path), place);
  if (opened.fd.valid() && opened.status.st_ino == place.file.inode) {
    file.fd = std::move(opened.fd);
    file.set_status(opened.status);
  } else {
    file.error = "map_files: " + error + "; " + file.path + ": " +
                 (opened.error.empty() ? "another file" : opened.error);
  }
  return file;
}

MappedFile open_mapped_file(const MappingPlace& place) {
  MappedFile mapped = open_by_mapping(place);
  if (mapped.fd.valid()) return mapped;
  MappedFile named = open_by_names(place, mapped.error);
  named.may_open_later = !named.fd.valid() && mapped.may_open_later;
  return named;
}

bool are_names_of(std::string_view names, std::string_view path) {
  while (!names.empty()) {
    const std::string_view name = names.substr(0, names.find('\0'));
    const bool ends_so = path.size() > name.size() && path.ends_with(name) &&
                         path[path.size() - name.size() - 1] == '/';
    if (!ends_so) return false;
    path.remove_suffix(name.size() + 1);
    names.remove_prefix(std::min(name.size() + 1, names.size()));
  }
  return path.empty();
}

std::string path_from_names(std::string_view names) {
  std::string path;
  while (!names.empty()) {
    const std::size_t end = std::min(names.find('\0'), names.size());
    path.insert(0, "/" + std::string(names.substr(0, end)));
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return path;
}

}  // namespace profd
