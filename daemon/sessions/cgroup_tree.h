// Finds the cgroups (v2) of systemd units and containers.
//
// Users may make any number of cgroups below their own. So a walk visits the system's cgroups
// first, a limited number in all, and is repeated only when that takes a small share of the time. A
// unit that starts later has no cgroup yet, so it is not found. On the io thread.

#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "formats/api/start_request.h"
#include "formats/base/result.h"
#include "formats/proc/cgroup_path.h"

namespace profd {

class CgroupTree {
 public:
  static constexpr std::size_t kMaxCgroups = 8192;

  // An empty `mount` means that the host has no cgroup v2 mount: units and containers are
  // kUnsupported.
  explicit CgroupTree(std::string mount) : mount_(std::move(mount)) {}

  // Adds the cgroups of the target's units and containers to it. kNotFound: one of them does not
  // run; kInvalidArgument: several containers match one name.
  [[nodiscard]] Result<TargetRequest> resolve(TargetRequest target);

 private:
  [[nodiscard]] Result<std::vector<std::string>> find_unit(const std::string& unit) const;
  [[nodiscard]] Result<std::vector<std::string>> find_container(const std::string& name) const;
  void walk_if_stale();
  void walk();

  std::string mount_;
  std::vector<std::string> paths_;  // parents before their children
  std::chrono::steady_clock::time_point valid_until_;
};

}  // namespace profd
