// Which files of the history are removed when it is over its limits, and what a user may have of
// the next one.

#include <algorithm>
#include <utility>

#include "daemon/history/store.h"

namespace profd {
namespace {

using std::chrono::system_clock;

// Goes through the files of one kind, oldest first, and removes some.
template <class Info>
class OldestFirst {
 public:
  OldestFirst(std::vector<Info>& files, std::uint64_t& bytes, std::vector<std::string>& removed)
      : files_(files), bytes_(bytes), removed_(removed), is_removed_(files.size()) {}
  OldestFirst(const OldestFirst&) = delete;
  OldestFirst& operator=(const OldestFirst&) = delete;

  ~OldestFirst() {
    std::size_t place = 0;
    std::erase_if(files_, [&](const Info&) { return is_removed_[place++]; });
  }

  // The first that is left and that `is_wanted`, or null.
  template <class Wanted>
  [[nodiscard]] const Info* find(const Wanted& is_wanted) {
    while (first_ < files_.size() && is_removed_[first_]) ++first_;
    for (std::size_t place = first_; place < files_.size(); ++place) {
      if (!is_removed_[place] && is_wanted(files_[place])) return &files_[place];
    }
    return nullptr;
  }

  [[nodiscard]] const Info* first() {
    return find([](const Info&) { return true; });
  }

  template <class Wanted>
  void remove_all(const Wanted& is_wanted) {
    for (const Info& file : files_) {
      if (is_wanted(file)) remove(file);
    }
  }

  void remove(const Info& file) {
    is_removed_[static_cast<std::size_t>(&file - files_.data())] = true;
    bytes_ -= file.disk_bytes;
    removed_.push_back(file.name);
  }

 private:
  std::vector<Info>& files_;
  std::uint64_t& bytes_;
  std::vector<std::string>& removed_;
  std::vector<bool> is_removed_;
  std::size_t first_ = 0;
};

}  // namespace

EvictedFiles WindowStore::evict(const WindowLimits& limits, system_clock::time_point now) {
  EvictedFiles evicted;
  OldestFirst windows(windows_, windows_bytes_, evicted.windows);
  OldestFirst hours(hours_, hours_bytes_, evicted.hours);
  windows.remove_all([&](const WindowInfo& window) {
    const bool is_needed = window.hour.empty() && window.end >= now - limits.hours_max_age;
    return window.end < now - limits.max_age && !is_needed;
  });
  hours.remove_all([&](const HourInfo& hour) { return hour.end < now - limits.hours_max_age; });
  while (disk_bytes() > limits.max_bytes) {
    const WindowInfo* window = nullptr;
    if (windows_bytes_ > limits.max_bytes / 2) {
      window = windows.find([](const WindowInfo& one) { return !one.hour.empty(); });
    }
    const HourInfo* hour = window == nullptr ? hours.first() : nullptr;
    if (window == nullptr) window = windows.first();
    if (hour != nullptr && (window == nullptr || hour->end < window->end)) {
      hours.remove(*hour);
    } else if (window != nullptr) {
      windows.remove(*window);
    } else {
      break;
    }
  }
  for (const std::string& window : evicted.windows) add_removed(window);  // still in the table
  return evicted;
}

UserLimits WindowStore::window_limits(std::uint64_t max_bytes) const {
  constexpr std::uint64_t kWindowSteps = 60;
  UserSums sums;
  for (const WindowInfo& window : windows_) sums.add(window.users);
  return sums.limits(max_bytes / 2, kWindowSteps, kMaxUserBytes);
}

UserLimits WindowStore::hour_limits(std::uint64_t max_bytes) const {
  constexpr std::uint64_t kHourSteps = 24;
  UserSums sums;
  for (const HourInfo& hour : hours_) sums.add(hour.parts.users);
  return sums.limits(max_bytes / 2, kHourSteps, kMaxUserBytesOfHour);
}

}  // namespace profd
