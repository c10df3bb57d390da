// What /proc says of a process, for what profctl does to processes itself. Read at one moment: a
// pid may be another process's by the next.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "formats/base/result.h"

namespace profd {

struct ProcessFacts {
  uid_t uid = 0;  // effective, as are those of its files
  gid_t gid = 0;
  pid_t namespace_pid = 0;           // in its own, innermost PID namespace
  std::uint64_t caught_signals = 0;  // bit N - 1 is signal N
};

// kNotFound: there is no such process.
[[nodiscard]] Result<ProcessFacts> read_process_facts(pid_t pid);

// The paths of the files that it has mapped as code, in the order of their addresses; the first
// 65,536 lines are looked at. None where the caller may not see them.
[[nodiscard]] std::vector<std::string> code_paths_of(pid_t pid);

}  // namespace profd
