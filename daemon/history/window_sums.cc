#include "daemon/history/window_sums.h"

#include <algorithm>
#include <utility>

namespace profd {

namespace {

// The cgroup that both are below: "/a/b" of "/a/b/c" and "/a/b/d".
std::string common_cgroup(const std::string& one, const std::string& other) {
  const std::string path = one + '/';
  const std::string other_path = other + '/';
  const auto apart = std::ranges::mismatch(path, other_path).in1;
  const std::string shared(path.begin(), apart);
  const std::size_t end = shared.rfind('/');
  return end == std::string::npos ? std::string() : shared.substr(0, end);
}

}  // namespace

void WindowSums::add(ProfileSummary summary, WindowProfile profile) {
  const auto [place, added] = places_.try_emplace(profile.labels, profiles_.size());
  if (added) {
    summaries_.push_back(std::move(summary));
    profiles_.push_back(std::move(profile));
    return;
  }
  add_figures(summary, summaries_[place->second]);
  WindowProfile& known = profiles_[place->second];
  if (known.owner != profile.owner) known.owner.reset();
  if (known.user != profile.user) known.user.reset();
  known.cgroup = common_cgroup(known.cgroup, profile.cgroup);
}

void WindowSums::finish(const PprofProfile& profile, SessionSummary& summary,
                        WindowRecord& record) && {
  std::vector<std::size_t> place_of_set;
  for (std::uint32_t set = 0; set < profile.labels_count(); ++set) {
    const auto known = places_.find(labels_of(profile, set));
    place_of_set.push_back(known == places_.end() ? summaries_.size() : known->second);
  }
  for (ProfileSummary& one : summaries_) one.samples = one.stacks = 0;
  for (std::size_t i = 0; i < profile.samples().size(); ++i) {
    const std::size_t place = place_of_set[profile.samples()[i].labels];
    if (place == summaries_.size()) continue;
    summaries_[place].samples += static_cast<std::uint64_t>(profile.values(i)[0]);
    ++summaries_[place].stacks;
  }
  summary.profiles = std::move(summaries_);
  record.profiles = std::move(profiles_);
}

void add_figures(const ProfileSummary& other, ProfileSummary& sum) {
  sum.samples += other.samples;
  sum.stacks += other.stacks;
  sum.user_samples += other.user_samples;
  sum.complete_samples += other.complete_samples;
  sum.kernel_only_samples += other.kernel_only_samples;
  for (const auto& [reason, count] : other.incomplete) sum.incomplete[reason] += count;
  if (!other.jit) return;
  if (sum.jit) {
    add_later(*other.jit, *sum.jit);
  } else {
    sum.jit = other.jit;
  }
}

}  // namespace profd
