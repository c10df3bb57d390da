// Finds and opens files for profctl, where root may name one that another user has chosen the place
// of: a link in /tmp, a path in a profile, /proc/PID/exe.
//
// A file system of another user (FUSE, or an overlay of such a user) may never answer, and not even
// SIGKILL ends a call that waits for it. So root walks a path one component at a time, and asks no
// file system for which mounts.h says that it may hang: of such a one, only names are found that
// the kernel has cached, and no file. A file system of root's own, FUSE or NFS, is asked, and may
// hang as for any other program. Callers without privileges use what mounts they like.

#pragma once

#include <string>

#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

// As open(2) with O_PATH: links are followed. kPermissionDenied, with a hint: it lies on a file
// system of another user. Links that fs.protected_symlinks is there for are refused, as EACCES.
[[nodiscard]] Result<UniqueFd> find_file(const std::string& path);

// Finds a regular file, and only then opens it for reading, since to open a device can have
// effects. Does not wait for a lease. kInvalidArgument: it is something else, or lies in /proc,
// /sys or another such file system, where a read can have effects, too.
[[nodiscard]] Result<UniqueFd> open_regular_file(const std::string& path);

}  // namespace profd
