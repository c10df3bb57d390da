#include "ctl/client/caller_rights.h"

#include <grp.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace profd {
namespace {

constexpr const char* kPrivilegedGroup = "profd";

bool is_in_group(gid_t group) {
  if (::getegid() == group) return true;
  const int count = ::getgroups(0, nullptr);
  std::vector<gid_t> groups(static_cast<std::size_t>(std::max(count, 0)));
  const int got = ::getgroups(static_cast<int>(groups.size()), groups.data());
  groups.resize(static_cast<std::size_t>(std::max(got, 0)));
  return std::ranges::find(groups, group) != groups.end();
}

}  // namespace

bool sees_own_processes_alone() {
  if (::geteuid() == 0) return false;
  const struct group* const privileged = ::getgrnam(kPrivilegedGroup);
  return privileged == nullptr || !is_in_group(privileged->gr_gid);
}

bool knows_lost_samples(const TargetRequest& target) {
  return target.empty() && !sees_own_processes_alone();
}

}  // namespace profd
