// The table of the files of the history: windows, and hours of them. Their times and sizes, and the
// decision which to remove.
//
// The table has only a few members of each file, since two days have 2,880 windows; the others are
// read from the disk on request (window_file.h). The io thread owns the table. The window worker
// writes and removes the files.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "daemon/history/user_shares.h"
#include "daemon/history/window_file.h"
#include "formats/base/result.h"

namespace profd {

struct WindowInfo {
  std::string name;
  std::chrono::system_clock::time_point start;
  std::chrono::system_clock::time_point end;
  std::uint64_t disk_bytes = 0;
  std::uint64_t over_share_samples = 0;  // when it is written (user_shares.h)
  SamplesByUser over_share_by_uid{};     // the same; not in the table
  std::vector<UserBytes> users{};
  std::string hour{};          // the hour file that has its samples; empty: none
  std::uint64_t sequence = 0;  // in which order the table got them; set by adopt()
};

struct HourInfo {
  std::string name;
  std::chrono::system_clock::time_point start;
  std::chrono::system_clock::time_point end;
  std::uint64_t disk_bytes = 0;
  std::uint64_t over_share_samples = 0;
  SamplesByUser over_share_by_uid{};  // not in the table
  WindowParts parts{};                // in the table without `windows`, which have its name instead
  std::size_t windows = 0;            // of which it has the samples; in the table
};

struct WindowLimits {
  std::chrono::seconds max_age{};
  std::uint64_t max_bytes = 0;           // of all files together
  std::chrono::seconds hours_max_age{};  // of hour files
};

// Names of files that are to be removed.
struct EvictedFiles {
  std::vector<std::string> windows;
  std::vector<std::string> hours;
};

// The size of a file on the disk, in whole blocks.
[[nodiscard]] std::uint64_t disk_bytes_of(std::uint64_t file_bytes);

class WindowStore {
 public:
  // Makes STATE/windows and STATE/hours, and reads the head of each file; the newest are decoded,
  // since a crash of the host cuts them. A malformed or foreign file is moved to STATE/damaged/
  // and counted. Removes incomplete files, and what profd 0.1 left: windows that are directories,
  // and STATE/objects.
  static Result<WindowStore> open(const std::string& state_dir);

  [[nodiscard]] const std::string& windows_dir() const { return windows_dir_; }
  [[nodiscard]] const std::string& hours_dir() const { return hours_dir_; }

  // Sorted by start, oldest first.
  [[nodiscard]] const std::vector<WindowInfo>& windows() const { return windows_; }
  [[nodiscard]] const std::vector<HourInfo>& hours() const { return hours_; }

  // The names of the windows that were written after `after`, or of all if that is empty, in the
  // order in which they were written: where the clock was set back, that is not the order of their
  // names. After a start of the daemon, and if no window `after` is known, the names decide.
  // At most the first `most`.
  [[nodiscard]] std::vector<std::string> names_after(const std::string& after,
                                                     std::size_t most = SIZE_MAX) const;

  // The same of windows that were removed, for those who would have read them; none if `after` is
  // empty. Known are the last kMaxRemoved of those that were removed since the daemon started, or
  // whose samples an hour file has.
  [[nodiscard]] std::vector<std::string> removed_after(const std::string& after,
                                                       std::size_t most = SIZE_MAX) const;
  static constexpr std::size_t kMaxRemoved = 4096;  // 70 bytes each

  // A name for a window, or for the file of an hour, that starts at `start`.
  [[nodiscard]] std::string unused_name(std::chrono::system_clock::time_point start) const;
  [[nodiscard]] std::string unused_hour_name(std::chrono::system_clock::time_point start) const;

  // Adds a window that is on the disk.
  void adopt(WindowInfo window);

  // Adds an hour file that is on the disk; its windows are known as parts of it from then on.
  void adopt(HourInfo hour);

  // Removes files over the limits from the table, and returns their names.
  //
  // A window that no hour file has yet is kept beyond its age, but not beyond that of hour files.
  // Over `max_bytes`, the oldest windows that an hour file has go first, as long as all windows
  // take more than half of it; then the oldest files of both kinds.
  [[nodiscard]] EvictedFiles evict(const WindowLimits& limits,
                                   std::chrono::system_clock::time_point now);

  // What each user may have of the next window, or of the next hour file, when both kinds may have
  // half of `max_bytes`.
  [[nodiscard]] UserLimits window_limits(std::uint64_t max_bytes) const;
  [[nodiscard]] UserLimits hour_limits(std::uint64_t max_bytes) const;

  [[nodiscard]] std::uint64_t disk_bytes() const { return windows_bytes_ + hours_bytes_; }
  [[nodiscard]] std::uint64_t malformed() const { return malformed_; }

 private:
  struct RemovedWindow {
    std::string name;
    std::uint64_t sequence = 0;  // that of its WindowInfo; 0: removed before the daemon started
  };

  explicit WindowStore(const std::string& state_dir)
      : state_dir_(state_dir),
        windows_dir_(state_dir + "/windows"),
        hours_dir_(state_dir + "/hours") {}

  Result<void> load_windows();
  Result<void> load_window(int directory, const std::string& file);
  Result<void> load_hours();
  Result<void> load_hour(int directory, const std::string& file, bool is_newest);
  void set_aside(int directory, const std::string& file, const Error& why);
  Result<void> remove_objects();
  [[nodiscard]] const WindowInfo* find_window(const std::string& name) const;  // or null
  void add_removed(const std::string& name);
  // Of the newest window of this name. None: the names decide.
  [[nodiscard]] std::optional<std::uint64_t> sequence_of(const std::string& name) const;

  std::string state_dir_;
  std::string windows_dir_;
  std::string hours_dir_;
  std::vector<WindowInfo> windows_;
  std::vector<HourInfo> hours_;
  std::deque<RemovedWindow> removed_;
  std::uint64_t windows_bytes_ = 0;
  std::uint64_t hours_bytes_ = 0;
  std::uint64_t adopted_ = 0;  // windows
  std::uint64_t malformed_ = 0;
  std::uint64_t of_old_form_ = 0;  // windows of profd 0.1, which were removed
};

}  // namespace profd
