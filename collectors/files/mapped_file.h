// A file that a sampled process has mapped, opened once. Immutable; may go to the worker.

#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "collectors/bpf/sample.h"
#include "formats/base/unique_fd.h"

namespace profd {

struct MappedFile {
  FileKey key;
  std::string path;  // as the kernel names it, without " (deleted)"; never empty
  bool deleted = false;
  UniqueFd fd{};        // open for reading, a regular file; invalid when nothing could be opened
  std::string error{};  // why fd is invalid

  // What fstat said of the opened file, also after fd was closed again; all 0 when no file was
  // opened. On an overlay these are the overlay's and the key's the layer's.
  std::uint64_t stat_device = 0;
  std::uint64_t stat_inode = 0;
  std::int64_t stat_ctime_ns = 0;
  std::uint32_t owner = 0;  // uid
};

// The key of the file that fstat() describes, as the kernel side makes it but for the generation,
// which fstat() does not return: 0. On an overlay the kernel side has the layer's file instead.
[[nodiscard]] FileKey file_key_of(const struct stat& status);

// Sets `stat_*` and `owner`.
void set_status(const struct stat& status, MappedFile& file);

}  // namespace profd
