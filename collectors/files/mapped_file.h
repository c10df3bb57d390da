// A file that a sampled process has mapped, opened once. Immutable; may go to the worker.

#pragma once

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cstdint>
#include <string>

#include "collectors/bpf/sample.h"
#include "collectors/host/clock.h"
#include "formats/base/unique_fd.h"

namespace profd {

struct MappedFile {
  FileKey key;
  // As the kernel names it for the process that mapped the file first, without " (deleted)"; never
  // empty. Other processes may know the file by another path, and may not see this one.
  std::string path;
  ProcessKey process{};  // that one
  bool deleted = false;
  UniqueFd fd{};        // open for reading, a regular file; invalid when nothing could be opened
  std::string error{};  // why fd is invalid
  bool is_opening = false;  // the open is under way: fd, owner and the like are not known yet
  // Whether a later open may succeed: it took too long, or a limit of that moment was reached.
  bool may_open_later = false;

  // From fstat() of the opened file, also where `fd` is closed again; all 0 when none was opened.
  // On an overlay these are the overlay's, and the key is the layer's.
  std::uint64_t stat_device = 0;
  std::uint64_t stat_inode = 0;
  std::int64_t stat_ctime_ns = 0;
  std::uint32_t owner = 0;  // uid
  bool is_private = false;  // others than the owner may not read it, though they may run it

  void set_status(const struct stat& status) {
    stat_device = status.st_dev;
    stat_inode = status.st_ino;
    stat_ctime_ns = nanoseconds_of(status.st_ctim);
    owner = status.st_uid;
    is_private = (status.st_mode & S_IROTH) == 0;
  }
};

// Whether the file's names may be shown where a process of this user is.
[[nodiscard]] inline bool may_be_read_by(const MappedFile& file, std::uint32_t uid) {
  return !file.is_private || uid == 0 || uid == file.owner;
}

// The device of a FileKey: the kernel's own encoding of a dev_t.
[[nodiscard]] constexpr std::uint32_t device_of_key(std::uint32_t major, std::uint32_t minor) {
  return major << 20 | minor;
}

// The key that the kernel side has for the file that fstat() describes, except for the generation,
// which fstat() does not return: 0. On an overlay the kernel side has the layer's file instead.
[[nodiscard]] inline FileKey file_key_of(const struct stat& status) {
  return {.inode = status.st_ino,
          .size_bytes = static_cast<std::uint64_t>(status.st_size),
          .ctime_ns = nanoseconds_of(status.st_ctim),
          .device = device_of_key(gnu_dev_major(status.st_dev), gnu_dev_minor(status.st_dev)),
          .generation = 0};
}

}  // namespace profd
