// One profd for each state directory and socket: a lock file that lives as long as the process.

#pragma once

#include <string>

#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

class InstanceLock {
 public:
  // Takes the lock and writes the own pid into `path`, which is made if absent and made the own
  // user's alone (0600). It stays when the process ends: removing it would let two processes lock
  // two files of one name. kBusy names the pid of the one that has it.
  static Result<InstanceLock> take(const std::string& path);

 private:
  explicit InstanceLock(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace profd
