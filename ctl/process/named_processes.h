// The processes that run under given command names, for remarks on a target that matched nothing.

#pragma once

#include <string>
#include <vector>

namespace profd {

struct NamedProcesses {
  bool are_there = false;
  bool are_of_caller = false;  // at least one of them; root has all
};

// As /proc shows them to this process now. Like the kernel's, a name has 15 bytes at most.
[[nodiscard]] NamedProcesses find_named_processes(const std::vector<std::string>& names);

}  // namespace profd
