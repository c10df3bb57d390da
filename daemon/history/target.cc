#include "daemon/history/target.h"

#include <algorithm>
#include <utility>

#include "formats/proc/cgroup_path.h"

namespace profd {
namespace {

// Enough to know that a name is ambiguous.
constexpr std::size_t kMaxContainers = 2;

template <class T>
bool contains(const std::vector<T>& terms, const T& term) {
  return std::ranges::find(terms, term) != terms.end();
}

bool is_below(const std::string& path, std::string cgroup) {
  if (!cgroup.ends_with('/')) cgroup += '/';
  return (path + '/').starts_with(cgroup);
}

// Keeps the profiles with the best match of a term.
void add_best(const std::vector<CgroupMatch>& matches, std::vector<bool>& keep) {
  const auto best = std::ranges::max_element(matches);
  if (best == matches.end() || *best == CgroupMatch::kNone) return;
  for (std::size_t i = 0; i < matches.size(); ++i) keep[i] = keep[i] || matches[i] == *best;
}

}  // namespace

void WindowTarget::apply(WindowView& view) {
  if (is_everything()) return;
  std::vector<bool> keep;
  for (std::size_t i = 0; i < view.profiles.size(); ++i) {
    keep.push_back(is_named(view.summary.profiles[i], view.profiles[i]));
  }
  add_units(view, keep);
  add_containers(view, keep);
  keep_profiles(view, keep);
}

bool WindowTarget::is_named(const ProfileSummary& summary, const WindowProfile& profile) const {
  if (contains(target_.pids, summary.pid) || contains(target_.comms, summary.comm)) return true;
  if (profile.user && contains(target_.uids, *profile.user)) return true;
  return std::ranges::any_of(target_.cgroups, [&profile](const std::string& cgroup) {
    return !profile.cgroup.empty() && is_below(profile.cgroup, cgroup);
  });
}

void WindowTarget::add_units(const WindowView& view, std::vector<bool>& keep) const {
  for (const std::string& unit : target_.units) {
    std::vector<CgroupMatch> matches;
    for (const WindowProfile& profile : view.profiles) {
      matches.push_back(match_unit(profile.cgroup, unit));
    }
    add_best(matches, keep);
  }
}

void WindowTarget::add_containers(const WindowView& view, std::vector<bool>& keep) {
  for (const std::string& name : target_.containers) {
    std::vector<CgroupMatch> matches;
    std::set<std::string>& found = containers_[name];
    for (const WindowProfile& profile : view.profiles) {
      ContainerMatch match = match_container(profile.cgroup, name);
      matches.push_back(match.match);
      if (match.match != CgroupMatch::kNone && found.size() < kMaxContainers) {
        found.insert(std::move(match.container));
      }
    }
    add_best(matches, keep);
  }
}

Result<void> WindowTarget::check() const {
  for (const auto& [name, containers] : containers_) {
    if (containers.size() < kMaxContainers) continue;
    return fail(ErrorCode::kInvalidArgument, "several containers match '" + name + "'",
                "give more digits of the id: " + *containers.begin() + ", ...");
  }
  return {};
}

}  // namespace profd
