// Selects the profiles of a window that match a target.
//
// A profile matches if any term of the target matches, as for sessions; children of pids are not
// followed. A unit or container whose name any user can choose (formats/proc/cgroup_path.h) counts
// only in windows that have no such unit or container of the system. Any thread.

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

  // Removes the profiles that do not match from the window.
  void apply(WindowView& view);

  // To be called after all windows. kInvalidArgument: a name matches several containers.
  [[nodiscard]] Result<void> check() const;

 private:
  [[nodiscard]] bool is_named(const ProfileSummary& summary, const WindowProfile& profile) const;
  void add_units(const WindowView& view, std::vector<bool>& keep) const;
  void add_containers(const WindowView& view, std::vector<bool>& keep);

  TargetRequest target_;
  std::map<std::string, std::set<std::string>> containers_;  // the matches of each name
};

}  // namespace profd
