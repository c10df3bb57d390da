// Gives up all that a process may do but compute, and read and write what it has open.
//
// In the order in which the steps need each other: root directory, groups, user, capabilities,
// limits, Landlock, seccomp. What the kernel enforces afterwards: no file, socket, process or
// executable memory can be made, and none traced; an attempt ends the process (SIGSYS).

#pragma once

#include <cstdint>

#include "formats/base/result.h"

namespace profd {

struct RightsLimits {
  std::uint64_t memory_bytes = 0;  // of address space, beyond what is in use now
  std::uint64_t file_bytes = 0;    // of any file that is written
};

// Of the calling process, which must have one thread. On an error some rights may be gone: exit.
[[nodiscard]] Result<void> drop_privileges(const RightsLimits& limits);

}  // namespace profd
