// The table of the windows on the disk: their times and sizes, and the decision which to remove.
//
// The table has only a few members of each window, since two days have 2,880 windows; the others
// are read from the disk on request (window_file.h). The io thread owns the table. The window
// worker writes and removes the files.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/history/window_file.h"
#include "formats/base/result.h"

namespace profd {

struct WindowInfo {
  std::string name;
  std::chrono::system_clock::time_point start;
  std::chrono::system_clock::time_point end;
  std::uint64_t disk_bytes = 0;
  std::uint64_t over_share_samples = 0;  // when it is written (user_shares.h)
};

struct WindowLimits {
  std::chrono::seconds max_age{};
  std::uint64_t max_bytes = 0;  // of all windows
};

// The size of a file on the disk, in whole blocks.
[[nodiscard]] std::uint64_t disk_bytes_of(std::uint64_t file_bytes);

class WindowStore {
 public:
  // Makes STATE/windows and reads the head of each window; the last two are decoded, since a crash
  // of the host cuts the newest files. A malformed or foreign file is moved to STATE/damaged/
  // and counted. Removes incomplete windows, and what profd 0.1 left: windows that are directories,
  // and STATE/objects.
  static Result<WindowStore> open(const std::string& state_dir);

  [[nodiscard]] const std::string& windows_dir() const { return windows_dir_; }

  // Sorted by start, oldest first.
  [[nodiscard]] const std::vector<WindowInfo>& windows() const { return windows_; }

  // The windows that overlap [since, until).
  [[nodiscard]] std::vector<WindowInfo> between(std::chrono::system_clock::time_point since,
                                                std::chrono::system_clock::time_point until) const;

  // A name for a window that starts at `start`.
  [[nodiscard]] std::string unused_name(std::chrono::system_clock::time_point start) const;

  // Adds a window that is on the disk.
  void adopt(WindowInfo window);

  // Removes windows over the limits from the table, oldest first, and returns their names.
  [[nodiscard]] std::vector<std::string> evict(const WindowLimits& limits,
                                               std::chrono::system_clock::time_point now);

  [[nodiscard]] std::uint64_t disk_bytes() const { return disk_bytes_; }
  [[nodiscard]] std::uint64_t malformed() const { return malformed_; }

 private:
  explicit WindowStore(const std::string& state_dir)
      : state_dir_(state_dir), windows_dir_(state_dir + "/windows") {}

  Result<void> load();
  Result<void> load(int directory, const std::string& file);
  void check_newest(int directory);
  void set_aside(int directory, const std::string& file, const Error& why);
  Result<void> remove_objects();
  [[nodiscard]] std::vector<WindowInfo>::const_iterator find(const std::string& name) const;

  std::string state_dir_;
  std::string windows_dir_;
  std::vector<WindowInfo> windows_;
  std::uint64_t disk_bytes_ = 0;
  std::uint64_t malformed_ = 0;
  std::uint64_t of_old_form_ = 0;  // windows of profd 0.1, which were removed
};

}  // namespace profd
