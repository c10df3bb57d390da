// Finds the cgroups (v2) of systemd units and containers.
//
// Users may make any number of cgroups below their own. So a walk visits the system's cgroups
// first, a limited number in all, and is repeated only when that takes a small share of the time.
// Other tasks of the io thread run in between. A unit that starts later has no cgroup yet, so it is
// not found. On the io thread.

#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include "daemon/base/coroutines.h"
#include "formats/api/start_request.h"
#include "formats/base/result.h"
#include "formats/proc/cgroup_path.h"

namespace profd {

class CgroupTree {
 public:
  static constexpr std::size_t kMaxCgroups = 8192;

  // An empty `mount` means that the host has no cgroup v2 mount: units and containers are
  // kUnsupported.
  CgroupTree(boost::asio::io_context& io, std::string mount)
      : mount_(std::move(mount)), has_walked_(io) {}

  // Reads which cgroups there are, unless that was done a moment ago. To be awaited before
  // resolve().
  [[nodiscard]] boost::asio::awaitable<void> refresh();

  // Adds the cgroups of the target's units and containers to it. kNotFound: one of them does not
  // run; kInvalidArgument: several containers match one name.
  [[nodiscard]] Result<TargetRequest> resolve(TargetRequest target) const;

 private:
  [[nodiscard]] Result<std::vector<std::string>> find_unit(const std::string& unit) const;
  [[nodiscard]] Result<std::vector<std::string>> find_container(const std::string& name) const;
  boost::asio::awaitable<void> walk();

  std::string mount_;
  std::vector<std::string> paths_;  // parents before their children
  std::chrono::steady_clock::time_point valid_until_;
  bool is_walking_ = false;
  AsyncCondition has_walked_;
};

}  // namespace profd
