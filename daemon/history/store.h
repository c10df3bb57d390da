// The windows of continuous mode that are kept: which there are, what they take, and which are to
// go.
//
// Only a few words of each stay in memory, since a week has 10,080; the rest is read back from the
// disk when it is asked for (window_files.h). The io thread owns the table; writing and removing
// files is the worker's.

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

// What is no longer needed, by name.
struct Evicted {
  std::vector<std::string> windows;
  std::vector<std::string> objects;
};

// What a file of so many bytes takes: whole blocks.
[[nodiscard]] std::uint64_t disk_bytes_of(std::uint64_t file_bytes);

class WindowStore {
 public:
  // Makes STATE/windows and STATE/objects, removes what was half-written and the objects that no
  // window needs, and reads each window's record. A damaged window is moved to STATE/damaged and
  // counted.
  static Result<WindowStore> open(const std::string& state_dir);

  [[nodiscard]] const std::string& windows_dir() const { return windows_dir_; }
  [[nodiscard]] const std::string& objects_dir() const { return objects_dir_; }

  // By start, oldest first.
  [[nodiscard]] const std::vector<WindowInfo>& windows() const { return windows_; }

  // Those that share some time with [since, until).
  [[nodiscard]] std::vector<WindowInfo> between(std::chrono::system_clock::time_point since,
                                                std::chrono::system_clock::time_point until) const;

  // A name for a window that starts then.
  [[nodiscard]] std::string unused_name(std::chrono::system_clock::time_point start) const;

  // A window that is on the disk, and the objects that it needs.
  void adopt(WindowInfo window, const std::vector<std::string>& objects);

  // What an object takes by now. One that no window needs goes with the next evict().
  void set_object_bytes(const std::string& name, std::uint64_t disk_bytes);

  // Forgets what is over the limits, oldest first, an object with the last window that needs it.
  [[nodiscard]] Evicted evict(const WindowLimits& limits,
                              std::chrono::system_clock::time_point now);

  [[nodiscard]] std::uint64_t disk_bytes() const { return windows_bytes_ + objects_bytes_; }
  [[nodiscard]] std::size_t objects() const { return objects_.size(); }
  [[nodiscard]] std::uint64_t damaged() const { return damaged_; }

 private:
  struct Object {
    std::uint64_t disk_bytes = 0;
    std::string last_window;  // the newest that needs it
  };

  explicit WindowStore(const std::string& state_dir)
      : windows_dir_(state_dir + "/windows"), objects_dir_(state_dir + "/objects") {}

  Result<void> load_windows(const std::string& state_dir);
  Result<void> load_objects();
  [[nodiscard]] std::vector<WindowInfo>::const_iterator find(const std::string& name) const;
  void drop_unneeded_objects(Evicted& evicted);
  void drop_objects_before(const std::string& oldest, Evicted& evicted);

  std::string windows_dir_;
  std::string objects_dir_;
  std::vector<WindowInfo> windows_;
  std::map<std::string, Object> objects_;
  std::uint64_t windows_bytes_ = 0;
  std::uint64_t objects_bytes_ = 0;
  std::uint64_t damaged_ = 0;
};

}  // namespace profd
