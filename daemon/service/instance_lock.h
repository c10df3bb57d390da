// A lock file that lets only one profd use a state directory or a socket.

#pragma once

#include <string>
#include <utility>

#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

class InstanceLock {
 public:
  // Locks `path` until the lock is destroyed or the process ends, and writes the own pid into it.
  // The file is made if absent, gets the own user and mode 0600, and is never removed: otherwise
  // two processes could lock two files of one name. kBusy names the pid of the process that has the
  // lock.
  static Result<InstanceLock> take(const std::string& path);

 private:
  explicit InstanceLock(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace profd
