// The table of the windows on the disk: their times and sizes, and the decision which to remove.
//
// The table has only a few members of each window, since a week has 10,080 windows; the others are
// read from the disk on request (files.h). The io thread owns the table. The window worker writes
// and removes the files.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "daemon/history/files.h"
#include "formats/base/result.h"

namespace profd {

struct WindowInfo {
  std::string name;
  std::chrono::system_clock::time_point start;
  std::chrono::system_clock::time_point end;
  std::uint64_t disk_bytes = 0;  // without objects
};

struct WindowLimits {
  std::chrono::seconds max_age{};
  std::uint64_t max_bytes = 0;  // of windows and objects
};

// The names of windows and objects that are to be removed.
struct Evicted {
  std::vector<std::string> windows;
  std::vector<std::string> objects;
};

// The size of a file on the disk, in whole blocks.
[[nodiscard]] std::uint64_t disk_bytes_of(std::uint64_t file_bytes);

class WindowStore {
 public:
  // Makes STATE/windows and STATE/objects, removes incomplete windows and the objects that no
  // window needs, and reads each window's record. A malformed window is moved to STATE/damaged/ and
  // counted.
  static Result<WindowStore> open(const std::string& state_dir);

  [[nodiscard]] const std::string& windows_dir() const { return windows_dir_; }
  [[nodiscard]] const std::string& objects_dir() const { return objects_dir_; }

  // Sorted by start, oldest first.
  [[nodiscard]] const std::vector<WindowInfo>& windows() const { return windows_; }

  // The windows that overlap [since, until).
  [[nodiscard]] std::vector<WindowInfo> between(std::chrono::system_clock::time_point since,
                                                std::chrono::system_clock::time_point until) const;

  // A name for a window that starts at `start`.
  [[nodiscard]] std::string unused_name(std::chrono::system_clock::time_point start) const;

  // Adds a window that is on the disk, and the objects that it needs.
  void adopt(WindowInfo window, const std::vector<std::string>& objects);

  // Sets the size of an object. The next evict() removes an object that no window needs.
  void set_object_bytes(const std::string& name, std::uint64_t disk_bytes);

  // Removes windows over the limits from the table, oldest first, and each object with the last
  // window that needs it.
  [[nodiscard]] Evicted evict(const WindowLimits& limits,
                              std::chrono::system_clock::time_point now);

  [[nodiscard]] std::uint64_t disk_bytes() const { return windows_bytes_ + objects_bytes_; }
  [[nodiscard]] std::size_t objects() const { return objects_.size(); }
  [[nodiscard]] std::uint64_t malformed() const { return malformed_; }

 private:
  struct Object {
    std::uint64_t disk_bytes = 0;
    std::string last_window;  // the newest window that needs it
  };

  explicit WindowStore(const std::string& state_dir)
      : windows_dir_(state_dir + "/windows"), objects_dir_(state_dir + "/objects") {}

  Result<void> load_windows(const std::string& state_dir);
  Result<void> load_objects();
  [[nodiscard]] std::vector<WindowInfo>::const_iterator find(const std::string& name) const;
  void drop_objects_before(const std::string& oldest, Evicted& evicted);

  std::string windows_dir_;
  std::string objects_dir_;
  std::vector<WindowInfo> windows_;
  std::map<std::string, Object> objects_;
  std::uint64_t windows_bytes_ = 0;
  std::uint64_t objects_bytes_ = 0;
  std::uint64_t malformed_ = 0;
};

}  // namespace profd
