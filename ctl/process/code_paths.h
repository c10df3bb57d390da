// Which files a process has mapped as code.

#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace profd {

// Their paths, in the order of their addresses, from the first 65,536 lines of /proc/PID/maps.
// Empty if the caller may not read that file.
[[nodiscard]] std::vector<std::string> code_paths_of(pid_t pid);

}  // namespace profd
