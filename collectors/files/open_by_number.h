// Opens a file by its inode in its own file system, where the path that leads to it can't be used:
// on an overlay of users, a call may wait for a process that never answers
// (collectors/host/mounts.h).

#pragma once

#include "collectors/bpf/sample.h"
#include "formats/base/unique_fd.h"

namespace profd {

// An O_PATH descriptor of the file with this device, inode and generation. Works on ext4, xfs and
// tmpfs, in mounts that profd sees, with CAP_DAC_READ_SEARCH; elsewhere, and for a file that is
// gone, it is invalid.
[[nodiscard]] UniqueFd place_by_number(const FileKey& key);

}  // namespace profd
