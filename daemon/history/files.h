// The files of a window of continuous mode, for readers.
//
//     STATE/windows/NAME/session.json   as for any session; "session" is NAME
//                        window.json    for the daemon only: times, owners, cgroups, objects
//                        COMM.PID.prof  one for each process image
//     STATE/objects/OBJECT.so           images of hit functions, shared by all windows
//
// NAME is the start in UTC, such as 20260102T140500Z, with "-2" and so on when the clock was set
// back and the name is taken. Profiles name objects by their absolute path. A window is added and
// removed as a whole. Opening a removed window fails with kNotFound; if a window is removed while
// it is open, files may be missing. Any thread.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/fwd.hpp>

#include "collectors/bpf/sample.h"
#include "daemon/profiles/process_labels.h"
#include "formats/api/session_summary.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

// The members of a profile that session.json does not have.
struct WindowProfile {
  std::string path;                   // as in session.json
  std::optional<ProcessOwner> owner;  // none: only root and the group profd may see it
  // The real uid; none: unknown.
  std::optional<std::uint32_t> user = std::nullopt;
  std::string cgroup;      // below the cgroup v2 mount; empty: unknown
  ProcessLabels labels{};  // of its samples

  friend bool operator==(const WindowProfile&, const WindowProfile&) = default;
};

// window.json
struct WindowRecord {
  std::chrono::system_clock::time_point start;
  std::chrono::system_clock::time_point end;
  std::chrono::nanoseconds start_monotonic{};  // CLOCK_MONOTONIC, which clock steps do not change
  std::chrono::nanoseconds end_monotonic{};
  std::uint64_t disk_bytes = 0;         // of the window's files, in whole blocks
  std::vector<std::string> objects;     // names in STATE/objects
  std::vector<WindowProfile> profiles;  // in the order of session.json

  friend bool operator==(const WindowRecord&, const WindowRecord&) = default;
};

[[nodiscard]] Result<void> read_json(const boost::json::value& value, WindowRecord& out);
[[nodiscard]] std::string to_json(const WindowRecord& record);
[[nodiscard]] Result<WindowRecord> parse_window_record(std::string_view json);

// "20260102T140500Z" for the first window of that second.
[[nodiscard]] std::string window_name(std::chrono::system_clock::time_point start);
[[nodiscard]] bool is_window_name(std::string_view name);

// Names in STATE/objects: safe file names (storage/safe_name.h) of at most 240 bytes.
[[nodiscard]] bool is_object_name(std::string_view name);

inline constexpr const char* kWindowRecordFile = "window.json";
inline constexpr const char* kWindowSummaryFile = "session.json";

class WindowFiles {
 public:
  // kNotFound: there is no window of that name.
  static Result<WindowFiles> open(const std::string& windows_dir, const std::string& name);

  [[nodiscard]] Result<WindowRecord> read_record() const;
  [[nodiscard]] Result<SessionSummary> read_summary() const;

  // Returns the bytes of a profile. `path` as in the summary.
  [[nodiscard]] Result<std::string> read_profile(const std::string& path) const;

 private:
  explicit WindowFiles(UniqueFd directory) : directory_(std::move(directory)) {}

  UniqueFd directory_;
};

}  // namespace profd
