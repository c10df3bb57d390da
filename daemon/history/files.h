// The record of a window of continuous mode: what the daemon alone needs to know besides the
// summary. Any thread.

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
#include "formats/base/result.h"

namespace profd {

// The members of a process that the summary does not have.
struct WindowProfile {
  std::optional<ProcessOwner> owner;  // none: only root and the group profd may see it
  // The real uid; none: unknown.
  std::optional<std::uint32_t> user = std::nullopt;
  std::string cgroup;      // below the cgroup v2 mount; empty: unknown
  ProcessLabels labels{};  // of its samples

  friend bool operator==(const WindowProfile&, const WindowProfile&) = default;
};

struct WindowRecord {
  std::chrono::system_clock::time_point start;
  std::chrono::system_clock::time_point end;
  std::chrono::nanoseconds start_monotonic{};  // CLOCK_MONOTONIC, which clock steps do not change
  std::chrono::nanoseconds end_monotonic{};
  std::vector<WindowProfile> profiles;  // in the order of the summary
  // The files with a build id whose code is named (named_file_text()): see read_back.h.
  std::vector<std::string> named_files{};

  friend bool operator==(const WindowRecord&, const WindowRecord&) = default;
};

[[nodiscard]] Result<void> read_json(const boost::json::value& value, WindowRecord& out);
[[nodiscard]] std::string to_json(const WindowRecord& record);
[[nodiscard]] Result<WindowRecord> parse_window_record(std::string_view json);

// The hour, by the wall clock, in which a window starts.
[[nodiscard]] std::chrono::system_clock::time_point hour_of(
    std::chrono::system_clock::time_point start);

// "20260102T140500Z" for the first window of that second.
[[nodiscard]] std::string window_name(std::chrono::system_clock::time_point start);
// start_of_window() of history_api.h reads it.
[[nodiscard]] bool is_window_name(std::string_view name);

}  // namespace profd
