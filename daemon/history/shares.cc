#include "daemon/history/shares.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/history/window_sums.h"
#include "formats/base/time_text.h"

namespace profd {
namespace {

// A login session or the manager of a user has a unit too, whose name says nothing.
bool is_service(std::string_view unit) {
  return unit.ends_with(".service") && !unit.starts_with("user@");
}

// Also of a process that has several names in the windows.
std::uint64_t count_processes(std::vector<std::pair<std::uint32_t, std::uint64_t>>& processes) {
  std::ranges::sort(processes);
  return static_cast<std::uint64_t>(std::unique(processes.begin(), processes.end()) -
                                    processes.begin());
}

template <class T>
void keep_largest(std::vector<T>& list, std::size_t limit) {
  std::ranges::stable_sort(list, std::ranges::greater{}, &T::cpu_percent);
  if (list.size() > limit) list.resize(limit);
}

std::vector<GroupShare> groups_of(const std::vector<ProcessShare>& processes) {
  struct Group {
    GroupShare share;
    std::vector<std::pair<std::uint32_t, std::uint64_t>> processes;
  };
  std::map<std::pair<bool, std::string_view>, Group> groups;
  for (const ProcessShare& process : processes) {
    const bool is_unit = process.unit && is_service(*process.unit);
    const std::string_view name = is_unit ? *process.unit : process.comm;
    Group& group = groups[{is_unit, name}];
    group.share.cpu_percent += process.cpu_percent;
    group.share.samples += process.samples;
    group.processes.emplace_back(process.pid, process.start_time_ns);
  }
  std::vector<GroupShare> shares;
  for (auto& [key, group] : groups) {
    group.share.is_unit = key.first;
    group.share.name = key.second;
    group.share.processes = count_processes(group.processes);
    shares.push_back(std::move(group.share));
  }
  return shares;
}

}  // namespace

void SharesSum::add(const WindowView& view) {
  if (shares_.window.empty()) {
    shares_.window = view.summary.session;
    shares_.started = view.summary.started;
  }
  shares_.ended = utc_text(view.end);
  shares_.seconds += view.summary.seconds;
  for (const auto& [reason, count] : view.summary.ledger.lost) shares_.lost[reason] += count;
  for (const ProfileSummary& profile : view.summary.profiles) {
    Sum& sum = sums_[{.pid = profile.pid,
                      .start_time_ns = profile.start_time_ns,
                      .comm = profile.comm,
                      .unit = profile.unit,
                      .container = profile.container}];
    sum.cpu_us +=
        static_cast<double>(profile.samples) * static_cast<double>(view.summary.period_us);
    add_figures(profile, sum.summary);
  }
}

WindowShares SharesSum::take(std::size_t processes, std::size_t groups) && {
  constexpr double kUsOfPercent = 1e4;  // in a second
  for (auto& [key, sum] : sums_) {
    const double percent = shares_.seconds > 0 ? sum.cpu_us / kUsOfPercent / shares_.seconds : 0;
    shares_.cpu_percent += percent;
    shares_.samples += sum.summary.samples;
    shares_.processes.push_back({.cpu_percent = percent,
                                 .pid = key.pid,
                                 .start_time_ns = key.start_time_ns,
                                 .comm = key.comm,
                                 .unit = key.unit,
                                 .container = key.container,
                                 .samples = sum.summary.samples,
                                 .user_samples = sum.summary.user_samples,
                                 .complete_samples = sum.summary.complete_samples,
                                 .jit = std::move(sum.summary.jit),
                                 .interpreted = std::move(sum.summary.interpreted)});
  }
  shares_.groups = groups_of(shares_.processes);
  keep_largest(shares_.groups, groups);
  keep_largest(shares_.processes, processes);
  return std::move(shares_);
}

WindowShares shares_of(const WindowView& view, std::size_t processes, std::size_t groups) {
  SharesSum sum;
  sum.add(view);
  return std::move(sum).take(processes, groups);
}

}  // namespace profd
