// The child processes of a process.

#pragma once

#include <sys/types.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

namespace profd::test {

// Each thread has a list of those that it started.
inline std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> found;
  std::error_code gone;
  const std::filesystem::path tasks = "/proc/" + std::to_string(pid) + "/task";
  for (const auto& thread : std::filesystem::directory_iterator(tasks, gone)) {
    std::ifstream children(thread.path() / "children");
    for (pid_t child = 0; children >> child;) found.push_back(child);
  }
  return found;
}

// The child whose command name this is; 0: there is none.
inline pid_t child_called(const std::string& comm, pid_t pid) {
  for (const pid_t child : children_of(pid)) {
    std::ifstream file("/proc/" + std::to_string(child) + "/comm");
    std::string name;
    if (std::getline(file, name) && name == comm) return child;
  }
  return 0;
}

}  // namespace profd::test
