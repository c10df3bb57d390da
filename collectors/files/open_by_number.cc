#include "collectors/files/open_by_number.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>

#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "collectors/files/mapped_file.h"
#include "collectors/host/mounts.h"
#include "formats/base/whole_file.h"

namespace profd {
namespace {

// From the kernel's include/linux/exportfs.h and fs/xfs/xfs_export.h, which no UAPI header has.
constexpr int kInode32Generation = 1;         // FILEID_INO32_GEN
constexpr int kInode64Generation = 0x80 | 1;  // XFS_FILEID_TYPE_64FLAG with it
constexpr std::size_t kMaxWords = 3;

// A struct file_handle with its bytes: a file system's own name of an inode.
struct Handle {
  unsigned int handle_bytes = 0;
  int handle_type = 0;
  std::array<std::uint32_t, kMaxWords> words{};
};

std::optional<Handle> handle_of(const FileKey& key, std::string_view file_system) {
  const auto low = static_cast<std::uint32_t>(key.inode);
  const auto high = static_cast<std::uint32_t>(key.inode >> 32);
  if (file_system == "tmpfs") return Handle{12, kInode32Generation, {key.generation, low, high}};
  if (file_system == "xfs" && high != 0) {
    return Handle{12, kInode64Generation, {low, high, key.generation}};
  }
  if ((file_system == "xfs" || file_system == "ext4") && high == 0) {
    return Handle{8, kInode32Generation, {low, key.generation, 0}};
  }
  return std::nullopt;
}

// A user's FUSE mount may hide the mount of the list. It is asked nothing: names that are not
// cached are not looked up, and a directory on another device is not opened.
UniqueFd open_mount(const Mount& mount) {
  const UniqueFd place =
      open_resolved(AT_FDCWD, mount.mount_point, O_PATH | O_DIRECTORY | O_CLOEXEC,
                    RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_CACHED);
  struct statx status {};
  if (!place.valid() ||
      ::statx(place.get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &status) != 0) {
    return UniqueFd();
  }
  if (device_of_key(status.stx_dev_major, status.stx_dev_minor) != mount.device) return UniqueFd();
  const std::string link = "/proc/self/fd/" + std::to_string(place.get());
  return UniqueFd(::open(link.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

UniqueFd open_handle(const UniqueFd& mount, const Handle& handle) {
  alignas(file_handle) std::array<char, sizeof(file_handle) + sizeof handle.words> bytes{};
  auto* const raw = reinterpret_cast<file_handle*>(bytes.data());
  raw->handle_bytes = handle.handle_bytes;
  raw->handle_type = handle.handle_type;
  std::memcpy(raw->f_handle, handle.words.data(), handle.handle_bytes);
  return UniqueFd(::open_by_handle_at(mount.get(), raw, O_PATH | O_CLOEXEC));
}

}  // namespace

UniqueFd place_by_number(const FileKey& key) {
  for (const Mount& mount : mounts_of_device(key.device)) {
    const auto handle = handle_of(key, mount.file_system);
    if (!handle) continue;
    const UniqueFd root = open_mount(mount);
    if (!root.valid()) continue;
    if (UniqueFd place = open_handle(root, *handle); place.valid()) return place;
  }
  return UniqueFd();
}

}  // namespace profd
