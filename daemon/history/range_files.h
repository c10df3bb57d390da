// Which files of the history answer a request for a range of time: windows, and hour files for the
// hours whose windows are gone. No sample is in two of them.
//
// Where the windows of a part of an hour are gone, the hour is taken as a whole if the range has
// some of that part. On the io thread.

#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "daemon/history/store.h"

namespace profd {

// The file of a window or of an hour.
struct HistoryFile {
  std::string directory;
  std::string name;

  friend bool operator==(const HistoryFile&, const HistoryFile&) = default;
};

struct HistoryRange {
  std::chrono::system_clock::time_point since;
  std::chrono::system_clock::time_point until;
};

// Windows end some milliseconds late, so a file is in a range only if they share at least a tenth
// of the shorter one.
[[nodiscard]] bool is_in_range(const HistoryRange& file, const HistoryRange& range);

enum class PreferHours : bool {
  kNo,   // windows where they are there
  kYes,  // hour files for hours of which the range has all windows: they cost less
};

struct RangeFiles {
  std::vector<HistoryFile> files;  // oldest first
  // Hours that are in `files` as a whole though the range has only a part of them.
  std::vector<HistoryRange> cut_hours;
};

[[nodiscard]] RangeFiles files_in(const WindowStore& store, const HistoryRange& range,
                                  PreferHours prefer);

}  // namespace profd
