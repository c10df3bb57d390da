// A lock file that lets only one profd use a state directory or a socket.

#pragma once

#include <string>

#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

// Locks `path` until the descriptor is closed, and writes the own pid into the file. The file is
// made if absent, gets the own user and mode 0600, and is never removed: otherwise two processes
// could lock two files of one name. kBusy names the pid of the process that has the lock.
[[nodiscard]] Result<UniqueFd> take_instance_lock(const std::string& path);

}  // namespace profd
