// The files that the symbolizer refused, died of or was too slow for: they are not tried again for
// an hour.

#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory_resource>
#include <optional>
#include <string>
#include <string_view>

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
  struct Refused;
  using Files = std::pmr::map<std::pmr::string, Refused, std::less<>>;
  using ByTime = std::pmr::list<Files::iterator>;
  struct Refused {
    DwarfLoss loss = DwarfLoss::kNone;
    TimePoint time;
    ByTime::iterator place;
  };

  // Apart from other memory: the files stay for an hour, and each would keep a page of what was
  // between them.
  std::pmr::unsynchronized_pool_resource memory_;
  Files files_{&memory_};
  ByTime by_time_{&memory_};  // the oldest first
};

}  // namespace profd
