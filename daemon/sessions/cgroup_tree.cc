#include "daemon/sessions/cgroup_tree.h"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <iterator>
#include <set>
#include <system_error>

namespace profd {
namespace {

using Clock = std::chrono::steady_clock;

// Walks take at most one part in so many of the io thread's time.
constexpr int kTimeShare = 20;
// A path with one more name still fits the kernel's limit of 4096 bytes.
constexpr std::size_t kMaxPathBytes = 3072;

std::vector<std::string> children_of(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (entry.is_directory(error)) names.push_back(entry.path().filename());
    if (names.size() == CgroupTree::kMaxCgroups) break;
  }
  return names;
}

struct Match {
  CgroupMatch match;
  const std::string* path;
};

// The best matches, except those below another one.
std::vector<std::string> best_of(const std::vector<Match>& matches) {
  CgroupMatch best = CgroupMatch::kNone;
  for (const Match& match : matches) best = std::max(best, match.match);
  std::vector<std::string> paths;
  for (const Match& match : matches) {
    if (match.match != best) continue;
    const bool is_below = std::ranges::any_of(
        paths, [&match](const std::string& above) { return match.path->starts_with(above + "/"); });
    if (!is_below) paths.push_back(*match.path);
  }
  return paths;
}

}  // namespace

Result<TargetRequest> CgroupTree::resolve(TargetRequest target) {
  if (target.units.empty() && target.containers.empty()) return target;
  if (mount_.empty()) {
    return fail(ErrorCode::kUnsupported,
                "this host has no cgroup v2 hierarchy, which units and containers need");
  }
  walk_if_stale();
  for (const std::string& unit : target.units) {
    Result<std::vector<std::string>> paths = find_unit(unit);
    if (!paths) return paths.error();
    std::ranges::move(*paths, std::back_inserter(target.cgroups));
  }
  for (const std::string& container : target.containers) {
    Result<std::vector<std::string>> paths = find_container(container);
    if (!paths) return paths.error();
    std::ranges::move(*paths, std::back_inserter(target.cgroups));
  }
  return target;
}

Result<std::vector<std::string>> CgroupTree::find_unit(const std::string& unit) const {
  std::vector<Match> matches;
  for (const std::string& path : paths_) {
    const CgroupMatch match = match_unit(path, unit);
    if (match != CgroupMatch::kNone) matches.push_back({match, &path});
  }
  if (!matches.empty()) return best_of(matches);
  return fail(ErrorCode::kNotFound, "no running unit is named " + unit,
              "'systemctl list-units' shows the running units");
}

Result<std::vector<std::string>> CgroupTree::find_container(const std::string& name) const {
  std::vector<Match> matches;
  std::set<std::string> containers;
  for (const std::string& path : paths_) {
    ContainerMatch match = match_container(path, name);
    if (match.match == CgroupMatch::kNone) continue;
    matches.push_back({match.match, &path});
    containers.insert(std::move(match.container));
  }
  if (containers.size() > 1) {
    return fail(ErrorCode::kInvalidArgument,
                std::to_string(containers.size()) + " running containers match '" + name + "'",
                "give more digits of the id: " + *containers.begin() + ", ...");
  }
  if (!matches.empty()) return best_of(matches);
  return fail(ErrorCode::kNotFound, "no running container matches '" + name + "'",
              "give its id or the beginning of it, as 'docker ps' or 'podman ps' shows it");
}

void CgroupTree::walk_if_stale() {
  const Clock::time_point begin = Clock::now();
  if (begin < valid_until_) return;
  walk();
  const Clock::time_point end = Clock::now();
  valid_until_ = end + kTimeShare * (end - begin);
}

// Level by level, so that a deep hierarchy does not hide shallow cgroups. Those that users or
// containers name come last.
void CgroupTree::walk() {
  paths_.clear();
  std::deque<std::string> system{""};
  std::deque<std::string> delegated;
  while (paths_.size() < kMaxCgroups && !(system.empty() && delegated.empty())) {
    std::deque<std::string>& queue = system.empty() ? delegated : system;
    const std::string above = std::move(queue.front());
    queue.pop_front();
    for (const std::string& name : children_of(mount_ + above)) {
      std::string path = above;
      path.append("/").append(name);
      if (path.size() > kMaxPathBytes || paths_.size() == kMaxCgroups) break;
      (delegates_names(path) ? delegated : system).push_back(path);
      paths_.push_back(std::move(path));
    }
  }
}

}  // namespace profd
