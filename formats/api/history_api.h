// The windows of continuous mode as JSON bodies of the control socket: lists of them, the processes
// that used the CPU, and the request to export a range of them as one result. docs/api.md describes
// them.
//
// Times are milliseconds since 1970, UTC. A range [since, until) contains every window that
// overlaps it by more than a tenth of the shorter of the two. An unknown member is an error in a
// request, and is skipped in an answer.

#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/api/session_summary.h"
#include "formats/api/start_request.h"
#include "formats/base/result.h"

namespace profd {

struct TimeRange {
  // In 2255; a 64-bit count of nanoseconds ends in 2262.
  static constexpr std::uint64_t kEndMs = 9'000'000'000'000;

  std::uint64_t since_ms = 0;
  std::uint64_t until_ms = kEndMs;

  friend bool operator==(const TimeRange&, const TimeRange&) = default;
};

// Of which event windows are: "cpu", or "off-cpu" where [continuous] off_cpu is true.
[[nodiscard]] Result<void> check_history_event(std::string_view event);
[[nodiscard]] bool asks_for_blocks(std::string_view history_event);

// What is wrong with a range that has no time in it.
[[nodiscard]] inline std::string fault_of_range(const TimeRange& range) {
  return range.since_ms == range.until_ms ? "is empty" : "ends before it starts";
}

// POST /v1/exports; the answer is a ResultInfo.
struct ExportRequest {
  TimeRange range;
  TargetRequest target;  // empty: all processes that the caller may see
  // The result has the profile with names (ResultInfo::named_profile), and no other files.
  bool profile_only = false;
  std::string event{};  // check_history_event(); empty: cpu

  friend bool operator==(const ExportRequest&, const ExportRequest&) = default;
};

// POST /v1/history.
struct HistoryRequest {
  static constexpr std::uint64_t kMaxWindows = 1000;
  // Of a list in all: the daemon makes the whole answer at once.
  static constexpr std::uint64_t kMaxGroups = 10'000;

  TimeRange range;
  TargetRequest target{};     // empty: all processes that the caller may see
  std::uint64_t limit = 100;  // 1 to kMaxWindows; the newest windows are listed
  // The answer has one window: all windows and hours of the range, added up. The limit does not
  // count then.
  bool sum = false;
  // Of each window of a list, at most; with `limit` windows not more than kMaxGroups. 0: as many as
  // of processes. A sum has all.
  std::uint64_t groups = 0;
  std::string event{};  // check_history_event(); empty: cpu

  friend bool operator==(const HistoryRequest&, const HistoryRequest&) = default;
};

// A process in a window, as the caller may see it.
struct ProcessShare {
  double cpu_percent = 0;  // of one CPU
  std::uint32_t pid = 0;
  std::uint64_t start_time_ns = 0;
  std::string comm;
  std::optional<std::string> unit;
  std::optional<std::string> container;
  std::uint64_t samples = 0;
  std::uint64_t user_samples = 0;
  std::uint64_t complete_samples = 0;
  std::optional<JitNames> jit;
  std::optional<InterpretedNames> interpreted{};

  friend bool operator==(const ProcessShare&, const ProcessShare&) = default;
};

// The processes of a service, or, of those outside of services, the ones with a command name.
struct GroupShare {
  double cpu_percent = 0;  // of one CPU
  std::string name;
  bool is_unit = false;  // the name is that of a service
  std::uint64_t processes = 0;
  std::uint64_t samples = 0;

  friend bool operator==(const GroupShare&, const GroupShare&) = default;
};

// A window and the processes that used the most CPU time in it, in descending order. For a caller
// that may not see all processes, and for a target, the counts are sums over those that it may see
// or that match, and `lost` is empty. Of windows of off-cpu, samples are microseconds, and 100 % is
// one thread that is off its CPU all the time.
struct WindowShares {
  std::string window;      // the name
  std::string started;     // RFC 3339, UTC
  std::string ended;       // likewise
  double seconds = 0;      // that the samples are of: less than the time between both, with gaps
  double cpu_percent = 0;  // of one CPU, of all processes
  std::uint64_t samples = 0;
  CountsByReason lost;
  std::vector<GroupShare> groups;
  std::vector<ProcessShare> processes;

  friend bool operator==(const WindowShares&, const WindowShares&) = default;
};

struct History {
  std::vector<WindowShares> windows;  // oldest first
  std::uint64_t left_out = 0;         // older windows of the range, beyond the limit

  friend bool operator==(const History&, const History&) = default;
};

// GET /v1/windows
struct WindowNames {
  std::vector<std::string> windows;  // oldest first
  // Those that were asked for and are in the history no more, oldest first, as far as they are
  // known. Older daemons name none.
  std::vector<std::string> removed{};

  friend bool operator==(const WindowNames&, const WindowNames&) = default;
};

[[nodiscard]] std::string to_json(const WindowNames& names);
[[nodiscard]] std::string to_json(const ExportRequest& request);
[[nodiscard]] std::string to_json(const HistoryRequest& request);
[[nodiscard]] std::string to_json(const WindowShares& window);
[[nodiscard]] std::string to_json(const History& history);

// kMalformed: no JSON. kInvalidArgument: JSON that is no valid request.
[[nodiscard]] Result<ExportRequest> parse_export_request(std::string_view json);
[[nodiscard]] Result<HistoryRequest> parse_history_request(std::string_view json);

[[nodiscard]] Result<WindowShares> parse_window_shares(std::string_view json);
[[nodiscard]] Result<History> parse_history(std::string_view json);
[[nodiscard]] Result<WindowNames> parse_window_names(std::string_view json);

// The start of a window by its name: "20260102T140500Z", or with a number, as "-2", where several
// start in one second. None for another text, and for a time that no calendar has, before 1970, or
// after 2199.
[[nodiscard]] std::optional<std::chrono::system_clock::time_point> start_of_window(
    std::string_view name);

}  // namespace profd
