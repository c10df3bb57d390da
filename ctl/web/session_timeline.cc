#include "ctl/web/session_timeline.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace profd {
namespace {

constexpr std::uint64_t kNsPerMs = 1'000'000;
constexpr std::uint64_t kSecondMs = 1000;
constexpr double kPercentOfSecond = 1e7;  // nanoseconds
constexpr std::size_t kMostGroups = 8;    // of a second

std::uint64_t start_ms(const Samples& samples) {
  return static_cast<std::uint64_t>(samples.time_ns) / kNsPerMs;
}

// What profctl web's list of processes calls the group of these labels.
std::pair<std::string_view, bool> group_of(const Samples& samples, const SampleLabels& labels) {
  const std::string_view unit = samples.text(labels.unit);
  return unit.empty() ? std::pair(samples.text(labels.comm), false) : std::pair(unit, true);
}

class Seconds {
 public:
  explicit Seconds(const Samples& samples) : samples_(samples) {
    const SampleTimes& times = *samples.times();
    make_windows(times);
    std::vector<std::map<std::pair<std::string_view, bool>, SampleValue>> groups(windows_.size());
    for (const SampleTime& time : times.entries) {
      if (time.tick >= times.until) continue;
      const std::size_t second = time.tick / kTicksOfSecond;
      const Samples::Row& row = samples.rows()[time.sample];
      windows_[second].parts[time.tick % kTicksOfSecond] += time.count;
      groups[second][group_of(samples, samples.labels()[row.labels])].add(
          part_of(row.value, time.count));
    }
    for (std::size_t i = 0; i < windows_.size(); ++i) add_groups(groups[i], windows_[i].shares);
  }

  std::vector<TimedWindow> take() { return std::move(windows_); }

 private:
  // Time without a sample has windows too.
  void make_windows(const SampleTimes& times) {
    std::uint32_t ticks = 0;
    for (const SampleTime& time : times.entries) ticks = std::max(ticks, time.tick + 1);
    const std::uint64_t lasted_ms =
        std::max(static_cast<std::uint64_t>(samples_.duration_ns) / kNsPerMs,
                 std::uint64_t{ticks} * kTickMs);
    const std::uint64_t end_ms = std::min(lasted_ms, std::uint64_t{times.until} * kTickMs);
    for (std::uint64_t at = 0; at < end_ms; at += kSecondMs) {
      TimedWindow& window = windows_.emplace_back();
      window.since_ms = start_ms(samples_) + at;
      window.until_ms = window.since_ms + kSecondMs;
      window.shares.seconds = 1;
      window.parts.resize(kTicksOfSecond);
    }
  }

  template <class Groups>
  static void add_groups(const Groups& groups, WindowShares& to) {
    for (const auto& [group, value] : groups) {
      const auto samples = static_cast<std::uint64_t>(value.samples);
      const double percent = static_cast<double>(value.cpu_ns) / kPercentOfSecond;
      to.samples += samples;
      to.cpu_percent += percent;
      to.groups.push_back({.cpu_percent = percent,
                           .name = std::string(group.first),
                           .is_unit = group.second,
                           .samples = samples});
    }
    std::ranges::stable_sort(to.groups, std::greater(), &GroupShare::cpu_percent);
    if (to.groups.size() > kMostGroups) to.groups.resize(kMostGroups);
  }

  const Samples& samples_;
  std::vector<TimedWindow> windows_;
};

}  // namespace

std::vector<TimedWindow> seconds_of_session(const Samples& samples) {
  return samples.times() ? Seconds(samples).take() : std::vector<TimedWindow>();
}

// A tick is in the range where it starts in it.
void keep_range(const TimeRange& range, Samples& samples) {
  if (!samples.times() || range == TimeRange()) return;
  const auto tick_of = [&](std::uint64_t ms) {
    const std::uint64_t since_start = ms - std::min(ms, start_ms(samples));
    const std::uint64_t tick = (since_start + kTickMs - 1) / kTickMs;
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(tick, kMaxTicks));
  };
  samples.keep_ticks(tick_of(range.since_ms), tick_of(range.until_ms));
}

}  // namespace profd
