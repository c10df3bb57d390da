#include "daemon/sessions/cgroup_tree.h"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <iterator>
#include <set>
#include <system_error>
#include <utility>

namespace profd {
namespace {

using Clock = std::chrono::steady_clock;

// Walks take at most one part in so many of the io thread's time.
constexpr int kTimeShare = 20;
// A directory takes about 50 us.
constexpr std::size_t kDirectoriesAtOnce = 64;
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

// Level by level, so that a deep hierarchy does not hide shallow cgroups. Those that users or
// containers name come last.
class Walk {
 public:
  explicit Walk(const std::string& mount) : mount_(mount) {}

  // Reads some directories. False: there are no more, or the limit is reached.
  bool advance() {
    for (std::size_t i = 0; i < kDirectoriesAtOnce && has_more(); ++i) read_next();
    return has_more();
  }
  std::vector<std::string> take() { return std::move(paths_); }

 private:
  [[nodiscard]] bool has_more() const {
    return paths_.size() < CgroupTree::kMaxCgroups && !(system_.empty() && delegated_.empty());
  }

  void read_next() {
    std::deque<std::string>& queue = system_.empty() ? delegated_ : system_;
    const std::string above = std::move(queue.front());
    queue.pop_front();
    for (const std::string& name : children_of(mount_ + above)) {
      std::string path = above;
      path.append("/").append(name);
      if (path.size() > kMaxPathBytes || paths_.size() == CgroupTree::kMaxCgroups) break;
      (delegates_names(path) ? delegated_ : system_).push_back(path);
      paths_.push_back(std::move(path));
    }
  }

  const std::string& mount_;
  std::vector<std::string> paths_;
  std::deque<std::string> system_{""};
  std::deque<std::string> delegated_;
};

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

Result<TargetRequest> CgroupTree::resolve(TargetRequest target) const {
  if (target.units.empty() && target.containers.empty()) return target;
  if (mount_.empty()) {
    return fail(ErrorCode::kUnsupported,
                "this host has no cgroup v2 hierarchy, which units and containers need");
  }
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

// Starts that come while one walks wait for its end.
boost::asio::awaitable<void> CgroupTree::refresh() {
  while (is_walking_) {
    co_await has_walked_.wait();
  }
  if (mount_.empty() || Clock::now() < valid_until_) co_return;
  is_walking_ = true;
  try {
    auto walking = walk();
    co_await std::move(walking);
  } catch (...) {
    is_walking_ = false;
    has_walked_.notify_all();
    throw;
  }
  is_walking_ = false;
  has_walked_.notify_all();
}

boost::asio::awaitable<void> CgroupTree::walk() {
  Walk walk(mount_);
  Clock::duration taken{};
  for (bool has_more = true; has_more;) {
    const Clock::time_point begin = Clock::now();
    has_more = walk.advance();
    taken += Clock::now() - begin;
    if (has_more) {
      co_await yield();
    }
  }
  paths_ = walk.take();
  valid_until_ = Clock::now() + kTimeShare * taken;
}

}  // namespace profd
