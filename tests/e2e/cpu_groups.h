// Groups of processes that share the CPUs as the slices and units of systemd do: all services
// together have as much as all users, and among the services profd has the weight of its unit
// (CPUWeight=500), which is five times that of others. So a user with thousands of processes has no
// more than one with a few.
//
// In cgroup v2 or, where that has no controller for CPUs, in v1. Needs root; gone with the object,
// once the processes have ended.

#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>

namespace profd::e2e {

class CpuGroups {
 public:
  CpuGroups();
  CpuGroups(const CpuGroups&) = delete;
  CpuGroups& operator=(const CpuGroups&) = delete;
  ~CpuGroups();

  // False where the host lets nobody make such groups, as in most containers.
  [[nodiscard]] bool are_there() const { return !top_.empty(); }

  // Whether the process has joined the group of profd.
  [[nodiscard]] bool has_profd(pid_t pid) const;

  // For Process::Options::before_exec: the process and its children are in the group. They do
  // nothing where there are no groups.
  [[nodiscard]] std::function<void()> of_profd() const;
  [[nodiscard]] std::function<void()> of_services() const;
  [[nodiscard]] std::function<void()> of_users() const;

 private:
  [[nodiscard]] std::function<void()> join(const std::filesystem::path& group) const;

  void restore_weights() const;

  std::filesystem::path top_;
  bool has_enabled_weights_ = false;  // for the children of its parent, which had none
};

}  // namespace profd::e2e
