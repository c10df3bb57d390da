// The host's cgroups (v2), searched for those of a systemd unit or a container.
//
// Users may make as many cgroups below their own as they like, so a walk looks at the system's
// first, at a limited number in all, and is done again only when that takes a small share of the
// time. A unit that starts later under the same path is the same cgroup by name only: it has to be
// there when it is looked up. On the io thread.

#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "formats/api/start_request.h"
#include "formats/base/result.h"
#include "formats/proc/cgroup_path.h"

namespace profd {

class CgroupTree {
 public:
  static constexpr std::size_t kMaxCgroups = 8192;

  // `mount` may be empty: the host has none, and every look-up is kUnsupported.
  explicit CgroupTree(std::string mount) : mount_(std::move(mount)) {}

  // The target with its units and containers as cgroups too. kNotFound: one is not there;
  // kInvalidArgument: several containers answer to one name.
  [[nodiscard]] Result<TargetRequest> resolve(TargetRequest target);

 private:
  [[nodiscard]] Result<std::vector<std::string>> find_unit(const std::string& unit);
  [[nodiscard]] Result<std::vector<std::string>> find_container(const std::string& name);
  void walk_if_stale();
  void walk();

  std::string mount_;
  std::vector<std::string> paths_;  // parents before their children
  std::chrono::steady_clock::time_point valid_until_;
};

}  // namespace profd
