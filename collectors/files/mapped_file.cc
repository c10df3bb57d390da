#include "collectors/files/mapped_file.h"

#include <sys/sysmacros.h>

#include "collectors/host/clock.h"

namespace profd {

FileKey file_key_of(const struct stat& status) {
  return {.inode = status.st_ino,
          .size_bytes = static_cast<std::uint64_t>(status.st_size),
          .ctime_ns = nanoseconds_of(status.st_ctim),
          .device = device_of_key(::gnu_dev_major(status.st_dev), ::gnu_dev_minor(status.st_dev)),
          .generation = 0};
}

void set_status(const struct stat& status, MappedFile& file) {
  file.stat_device = status.st_dev;
  file.stat_inode = status.st_ino;
  file.stat_ctime_ns = nanoseconds_of(status.st_ctim);
  file.owner = status.st_uid;
}

}  // namespace profd
