// What the control socket says of the windows that continuous mode keeps: which there are, who used
// the CPU in the last one, and which of them are to become one result. docs/api.md is the
// description.
//
// Times are milliseconds since 1970, UTC. A range [since, until) holds every window that shares
// with it more than a tenth of the shorter of the two. Requests refuse members that they do not
// know, answers skip them.

#pragma once

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
  static constexpr std::uint64_t kEndMs = 9'000'000'000'000;  // in 2255; as far as clocks count

  std::uint64_t since_ms = 0;
  std::uint64_t until_ms = kEndMs;

  friend bool operator==(const TimeRange&, const TimeRange&) = default;
};

// POST /v1/exports. Answered with a ResultInfo.
struct ExportRequest {
  TimeRange range;
  TargetRequest target;  // empty: all that the caller may see

  friend bool operator==(const ExportRequest&, const ExportRequest&) = default;
};

// POST /v1/history.
struct HistoryRequest {
  static constexpr std::uint64_t kMaxWindows = 1000;

  TimeRange range;
  std::uint64_t limit = 100;  // the newest of them; 1 to kMaxWindows

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

  friend bool operator==(const ProcessShare&, const ProcessShare&) = default;
};

// A window with the processes that used most of the CPU, that which used most first. For a caller
// who may not see all, the counts are of what he may see and nothing is lost.
struct WindowShares {
  std::string window;   // its name
  std::string started;  // RFC 3339, UTC
  double seconds = 0;
  std::uint64_t samples = 0;
  CountsByReason lost;
  std::vector<ProcessShare> processes;

  friend bool operator==(const WindowShares&, const WindowShares&) = default;
};

struct History {
  std::vector<WindowShares> windows;  // oldest first
  std::uint64_t left_out = 0;         // older ones of the range that are over the limit

  friend bool operator==(const History&, const History&) = default;
};

[[nodiscard]] std::string to_json(const ExportRequest& request);
[[nodiscard]] std::string to_json(const HistoryRequest& request);
[[nodiscard]] std::string to_json(const WindowShares& window);
[[nodiscard]] std::string to_json(const History& history);

// kInvalidArgument: JSON that makes no sense as a request. kMalformed: no JSON.
[[nodiscard]] Result<ExportRequest> parse_export_request(std::string_view json);
[[nodiscard]] Result<HistoryRequest> parse_history_request(std::string_view json);

[[nodiscard]] Result<WindowShares> parse_window_shares(std::string_view json);
[[nodiscard]] Result<History> parse_history(std::string_view json);

}  // namespace profd
