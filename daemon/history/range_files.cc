#include "daemon/history/range_files.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace profd {
namespace {

using std::chrono::system_clock;

// The windows of an hour file that are still there.
struct KeptWindows {
  std::size_t count = 0;
  bool are_in_range = true;  // all of them
  system_clock::time_point start;
};

template <class Info>
HistoryRange range_of(const Info& file) {
  return {.since = file.start, .until = file.end};
}

class FilesOfRange {
 public:
  FilesOfRange(const WindowStore& store, const HistoryRange& range, PreferHours prefer)
      : store_(store), range_(range), prefer_(prefer) {
    for (const WindowInfo& window : store.windows()) {
      if (!window.hour.empty()) note(window);
    }
  }

  RangeFiles find() {
    for (const HourInfo& hour : store_.hours()) {
      if (!is_in_range(range_of(hour), range_) || !takes(hour)) continue;
      taken_.insert(hour.name);
      found_.emplace(hour.start, HistoryFile{store_.hours_dir(), hour.name});
      if (is_cut(hour)) files_.cut_hours.push_back(range_of(hour));
    }
    for (const WindowInfo& window : store_.windows()) {
      if (!is_in_range(range_of(window), range_) || taken_.contains(window.hour)) continue;
      found_.emplace(window.start, HistoryFile{store_.windows_dir(), window.name});
    }
    for (auto& [start, file] : found_) files_.files.push_back(std::move(file));
    return std::move(files_);
  }

 private:
  void note(const WindowInfo& window) {
    KeptWindows& kept = kept_[window.hour];
    if (kept.count++ == 0) kept.start = window.start;
    kept.are_in_range = kept.are_in_range && is_in_range(range_of(window), range_);
  }

  // Whether the answer has the hour file instead of its windows.
  [[nodiscard]] bool takes(const HourInfo& hour) const {
    const auto kept = kept_.find(hour.name);
    if (kept == kept_.end()) return true;
    if (kept->second.count == hour.windows) {
      return prefer_ == PreferHours::kYes && kept->second.are_in_range;
    }
    // The oldest windows go first.
    return is_in_range({.since = hour.start, .until = kept->second.start}, range_);
  }

  // Of a whole hour, the range may miss as much as of a window.
  [[nodiscard]] bool is_cut(const HourInfo& hour) const {
    constexpr auto kLate = std::chrono::seconds(10);
    return range_.since > hour.start + kLate || range_.until < hour.end - kLate;
  }

  const WindowStore& store_;
  HistoryRange range_;
  PreferHours prefer_;
  std::map<std::string, KeptWindows> kept_;  // by the name of the hour
  std::set<std::string> taken_;
  std::multimap<system_clock::time_point, HistoryFile> found_;
  RangeFiles files_;
};

}  // namespace

bool is_in_range(const HistoryRange& file, const HistoryRange& range) {
  constexpr int kTenth = 10;
  const auto shared = std::min(file.until, range.until) - std::max(file.since, range.since);
  return shared * kTenth > std::min(file.until - file.since, range.until - range.since);
}

RangeFiles files_in(const WindowStore& store, const HistoryRange& range, PreferHours prefer) {
  return FilesOfRange(store, range, prefer).find();
}

}  // namespace profd
