#include "ctl/web/timeline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "ctl/web/session_timeline.h"
#include "formats/base/json_text.h"
#include "formats/base/time_text.h"
#include "formats/base/utf8_text.h"

namespace profd {
namespace {

using boost::json::array;
using boost::json::object;

constexpr std::uint64_t kUsualRangeMs = 600'000;
constexpr std::size_t kBarColumns = 16;
// Two days of minutes and 30 days of hours are 3600; this is a limit for a daemon with a bug.
constexpr std::size_t kMaxTimelineWindows = 20'000;
// Of a window: what the bars beside the list are made of, and what is shown of it.
constexpr std::size_t kGroupsOfWindow = 20;
constexpr std::size_t kShownOfWindow = 8;
constexpr std::size_t kMaxTimelineGroups = 1'000;  // of all windows

// Milliseconds since 1970 of a time that the daemon sends; 0 for a text that is none.
std::uint64_t ms_of(const std::string& utc) {
  const auto time = parse_time_text(utc, WallTime());
  return time ? static_cast<std::uint64_t>(time->time_since_epoch().count()) : 0;
}

// A request has a limit, so that the newest windows come first, then those before them.
Result<std::vector<TimedWindow>> read_windows(Client& client, const TargetRequest& target,
                                              const std::string& event) {
  std::vector<TimedWindow> found;  // the newest first
  HistoryRequest request{.range = {},
                         .target = target,
                         .limit = HistoryRequest::kMaxGroups / kGroupsOfWindow,
                         .sum = false,
                         .groups = kGroupsOfWindow,
                         .event = event};
  while (found.size() < kMaxTimelineWindows) {
    auto part = client.history(request);
    if (!part) return part.error();
    const std::size_t before = found.size();
    for (auto window = part->windows.rbegin(); window != part->windows.rend(); ++window) {
      const std::uint64_t since = ms_of(window->started);
      // One that ends some milliseconds late comes twice.
      if (before != 0 && since >= found[before - 1].since_ms) continue;
      found.push_back({since, std::max(ms_of(window->ended), since + 1), std::move(*window)});
    }
    if (part->left_out == 0 || found.size() == before) break;
    request.range.until_ms = found.back().since_ms;
  }
  std::ranges::reverse(found);
  return found;
}

struct TimelineGroup {
  double sum = 0;  // percent of one CPU, times seconds
  std::array<double, kBarColumns> columns{};
  std::size_t number = kMaxTimelineGroups;  // not listed

  // "▁▁▂█"
  [[nodiscard]] std::string bars() const {
    constexpr std::array kBars = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    const double most = std::max(*std::ranges::max_element(columns), 1e-9);
    std::string text;
    for (const double one : columns) {
      text += kBars.at(static_cast<std::size_t>(std::ceil(one / most * (kBars.size() - 1))));
    }
    return text;
  }
};

class TimelineJson {
 public:
  explicit TimelineJson(const std::vector<TimedWindow>& windows) : windows_(windows) {
    for (const TimedWindow& window : windows) {
      for (const GroupShare& group : window.shares.groups) add(window, group);
    }
  }

  object json() {
    array groups = number_groups();
    array windows;
    windows.reserve(windows_.size());
    for (const TimedWindow& window : windows_) windows.push_back(json_of_window(window));
    return {{"groups", std::move(groups)}, {"windows", std::move(windows)}};
  }

  // In whole windows.
  void add_range(const TimeRange& range, object& json) const {
    if (windows_.empty()) return;
    const std::uint64_t end = windows_.back().until_ms;
    const bool is_open = range == TimeRange();
    std::uint64_t since = is_open ? end - std::min(end, kUsualRangeMs) : range.since_ms;
    const auto first = std::ranges::find_if(
        windows_, [&](const TimedWindow& window) { return window.until_ms > since; });
    if (first != windows_.end()) since = first->since_ms;
    json.emplace("since", since);
    json.emplace("until", std::max(std::min(range.until_ms, end), since + 1));
  }

 private:
  using GroupId = std::pair<std::string, bool>;  // name, whether it is a unit

  static GroupId id_of(const GroupShare& group) {
    return {printable_utf8(group.name, kMaxPrintableBytes), group.is_unit};
  }

  void add(const TimedWindow& window, const GroupShare& share) {
    const std::uint64_t first = windows_.front().since_ms;
    const std::uint64_t length = windows_.back().until_ms - first;
    const double time = share.cpu_percent * window.shares.seconds;
    TimelineGroup& group = groups_[id_of(share)];
    group.sum += time;
    const std::uint64_t column =
        (window.since_ms - first) * kBarColumns / std::max<std::uint64_t>(length, 1);
    group.columns.at(std::min<std::uint64_t>(column, kBarColumns - 1)) += time;
  }

  array number_groups() {
    std::vector<std::pair<const GroupId, TimelineGroup>*> sorted;
    sorted.reserve(groups_.size());
    for (auto& group : groups_) sorted.push_back(&group);
    std::ranges::stable_sort(sorted, {}, [](const auto* group) { return -group->second.sum; });
    if (sorted.size() > kMaxTimelineGroups) sorted.resize(kMaxTimelineGroups);
    array list;
    for (auto* const group : sorted) {
      group->second.number = list.size();
      list.push_back(object{{"name", group->first.first},
                            {"is_unit", group->first.second},
                            {"bars", group->second.bars()}});
    }
    return list;
  }

  [[nodiscard]] object json_of_window(const TimedWindow& window) const {
    const WindowShares& shares = window.shares;
    array top;
    for (const GroupShare& group : shares.groups) {
      if (top.size() == kShownOfWindow) break;
      const std::size_t number = groups_.at(id_of(group)).number;
      if (number < kMaxTimelineGroups) top.push_back(array{number, group.cpu_percent});
    }
    object json{{"since", window.since_ms},  {"until", window.until_ms},
                {"seconds", shares.seconds}, {"cpu_percent", shares.cpu_percent},
                {"samples", shares.samples}, {"top", std::move(top)}};
    if (!window.parts.empty())
      json.emplace("parts", array(window.parts.begin(), window.parts.end()));
    return json;
  }

  const std::vector<TimedWindow>& windows_;  // not empty where there are groups
  std::map<GroupId, TimelineGroup> groups_;
};

}  // namespace

Result<std::string> timeline_json(Client& client, const TargetRequest& target,
                                  const TimeRange& range, const std::string& event) {
  const auto windows = read_windows(client, target, event);
  if (!windows) return windows.error();
  TimelineJson timeline(*windows);
  object json = timeline.json();
  timeline.add_range(range, json);
  return json_text(json);
}

std::string timeline_json(const Samples& samples) {
  const std::vector<TimedWindow> windows = seconds_of_session(samples);
  object json = TimelineJson(windows).json();
  if (windows.empty()) return json_text(json);
  auto untimed = static_cast<std::uint64_t>(samples.sum().samples);
  for (const TimedWindow& window : windows) untimed -= window.shares.samples;
  json.emplace("untimed", untimed);
  return json_text(json);
}

}  // namespace profd
