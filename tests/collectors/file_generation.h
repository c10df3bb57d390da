// The generation of a file's inode, as the kernel has it.

#pragma once

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

namespace profd::test {

// By name_to_handle_at(). None on a file system whose handles are of another form.
inline std::optional<std::uint32_t> generation_of(const std::string& path) {
  struct statfs system {};
  if (::statfs(path.c_str(), &system) != 0) return std::nullopt;
  alignas(file_handle) std::array<char, sizeof(file_handle) + MAX_HANDLE_SZ> bytes{};
  auto* const handle = reinterpret_cast<file_handle*>(bytes.data());
  handle->handle_bytes = MAX_HANDLE_SZ;
  int mount = 0;
  if (::name_to_handle_at(AT_FDCWD, path.c_str(), handle, &mount, 0) != 0) return std::nullopt;
  std::array<std::uint32_t, 3> words{};
  if (handle->handle_bytes > sizeof words) return std::nullopt;
  std::memcpy(words.data(), handle->f_handle, handle->handle_bytes);
  if (system.f_type == TMPFS_MAGIC) return words[0];
  if (system.f_type != EXT4_SUPER_MAGIC && system.f_type != XFS_SUPER_MAGIC) return std::nullopt;
  return words[handle->handle_bytes / sizeof words[0] - 1];
}

}  // namespace profd::test
