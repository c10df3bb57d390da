// Which profiles of the windows of continuous mode a target means.
//
// A target's terms are any of them, as for sessions; children of pids are not followed. A unit or
// container of a name that others can choose too (formats/proc/cgroup_path.h) counts in those
// windows only in which the system had none of it. Any thread.

#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "daemon/history/view.h"
#include "formats/api/start_request.h"
#include "formats/base/result.h"

namespace profd {

class WindowTarget {
 public:
  // An empty target means everything.
  explicit WindowTarget(TargetRequest target) : target_(std::move(target)) {}

  [[nodiscard]] bool is_everything() const { return target_.all || target_.empty(); }

  // Cuts the window down to the target.
  void apply(WindowView& view);

  // After all windows. kInvalidArgument: several containers answered to one name.
  [[nodiscard]] Result<void> check() const;

 private:
  [[nodiscard]] bool is_named(const ProfileSummary& summary, const WindowProfile& profile) const;
  void add_units(const WindowView& view, std::vector<bool>& keep) const;
  void add_containers(const WindowView& view, std::vector<bool>& keep);

  TargetRequest target_;
  std::map<std::string, std::set<std::string>> containers_;  // that answered to a name
};

}  // namespace profd
