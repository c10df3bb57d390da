// The files that the symbolizer refused, died of or was too slow for: they are not tried again for
// an hour.

#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <boost/unordered/unordered_flat_map.hpp>

#include "collectors/symbolizer/dwarf_frames.h"

namespace profd {

// By a key that the caller chooses, such as a build id. At most kMaxFiles: the oldest is forgotten
// for a new one. For one thread.
class RefusedFiles {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  static constexpr std::size_t kMaxFiles = 4096;
  static constexpr std::chrono::hours kTime{1};

  // Remembers the file where the loss is_of_file(), except kBusy, which says nothing of this file.
  // `now` must not go back from call to call.
  void add(std::string_view key, DwarfLoss loss, TimePoint now);
  // Why the file is not tried, within the hour.
  [[nodiscard]] std::optional<DwarfLoss> find(std::string_view key, TimePoint now) const;

 private:
  struct Refused {
    DwarfLoss loss = DwarfLoss::kNone;
    TimePoint time;
  };

  void forget_oldest();

  boost::unordered_flat_map<std::string, Refused> files_;
  std::deque<std::pair<TimePoint, std::string>> by_time_;
};

}  // namespace profd
