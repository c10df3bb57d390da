// The JSON bodies of the control socket, for both of its ends. docs/api.md is their description.
//
// Parsing checks types and ranges, so that neither end sees a half-valid value. Requests refuse
// unknown members by name; in answers they are skipped, so that an older profctl can talk to a
// newer daemon.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "formats/result.h"
#include "formats/session_summary.h"

namespace profd {

struct TargetRequest {
  bool all = false;
  std::vector<std::uint32_t> pids;
  std::vector<std::string> comms;
  std::vector<std::uint32_t> uids;
  std::vector<std::string> cgroups;

  [[nodiscard]] bool empty() const {
    return !all && pids.empty() && comms.empty() && uids.empty() && cgroups.empty();
  }
  friend bool operator==(const TargetRequest&, const TargetRequest&) = default;
};

// "all", or "pid 1234, comm nginx": for people.
[[nodiscard]] std::string describe(const TargetRequest& target);

struct StartRequest {
  TargetRequest target;
  bool children = true;
  bool from_exec = false;
  std::string event = "cpu";
  std::uint64_t frequency_hz = 0;  // 0: not given
  std::uint64_t period = 0;        // 0: not given
  std::uint64_t duration_ms = 0;   // 0: until stopped

  friend bool operator==(const StartRequest&, const StartRequest&) = default;
};

struct SessionInfo {
  std::string session;
  std::string state;  // "running" or "ended"
  TargetRequest target;
  std::string event;
  std::uint64_t frequency_hz = 0;
  std::uint64_t period = 0;
  std::string started;  // RFC 3339, UTC
  double seconds = 0;
  std::uint64_t samples = 0;
  std::uint64_t lost = 0;
  std::uint32_t uid = 0;
  bool targets_alive = true;

  friend bool operator==(const SessionInfo&, const SessionInfo&) = default;
};

struct ResultFile {
  std::string path;  // relative, below the result
  std::uint64_t bytes = 0;

  friend bool operator==(const ResultFile&, const ResultFile&) = default;
};

struct ResultInfo {
  std::string result;
  SessionSummary summary;
  std::vector<ResultFile> files;

  friend bool operator==(const ResultInfo&, const ResultInfo&) = default;
};

struct StatusInfo {
  struct Ledger {
    std::uint64_t taken = 0;
    std::uint64_t sent = 0;
    std::uint64_t idle = 0;
    std::uint64_t filtered = 0;
    CountsByReason lost;

    // taken - sent - idle - filtered - lost, of terms that are counted separately.
    [[nodiscard]] std::int64_t difference() const;
    friend bool operator==(const Ledger&, const Ledger&) = default;
  };

  std::string version;
  std::uint32_t pid = 0;
  double uptime_seconds = 0;
  double cpu_seconds = 0;
  std::uint64_t rss_bytes = 0;
  std::uint64_t sessions = 0;
  Ledger ledger;
  std::uint64_t outside_namespace = 0;
  std::uint64_t received = 0;
  std::uint64_t skipped_estimate = 0;
  std::uint64_t mapping_records = 0;
  std::uint64_t results_bytes = 0;

  friend bool operator==(const StatusInfo&, const StatusInfo&) = default;
};

[[nodiscard]] std::string to_json(const StartRequest& request);
[[nodiscard]] std::string to_json(const SessionInfo& session);
[[nodiscard]] std::string to_json(const std::vector<SessionInfo>& sessions);  // {"sessions":[...]}
[[nodiscard]] std::string to_json(const ResultInfo& result);
[[nodiscard]] std::string to_json(const StatusInfo& status);
[[nodiscard]] std::string to_json(const Error& error);
[[nodiscard]] std::string started_json(const std::string& session);  // {"session":"ID"}

// kMalformed: no JSON. kInvalidArgument: JSON that makes no sense as a request.
[[nodiscard]] Result<StartRequest> parse_start_request(std::string_view json);
[[nodiscard]] Result<std::string> parse_started(std::string_view json);
[[nodiscard]] Result<SessionInfo> parse_session_info(std::string_view json);
[[nodiscard]] Result<std::vector<SessionInfo>> parse_session_list(std::string_view json);
[[nodiscard]] Result<ResultInfo> parse_result_info(std::string_view json);
[[nodiscard]] Result<StatusInfo> parse_status_info(std::string_view json);
// What the other end reports as an error; a body that is none becomes an internal error that quotes
// it, cut short.
[[nodiscard]] Error parse_error(std::string_view json);

[[nodiscard]] std::string_view error_code_name(ErrorCode code);  // "not_found"

// What either end may use as part of a path, whoever sent it. An id: 1 to 64 of [A-Za-z0-9_-]. A
// result's path: components of [A-Za-z0-9._+-], none of them "." or "..", at most 8 of them and
// 1024 bytes in all.
[[nodiscard]] bool is_valid_id(std::string_view id);
[[nodiscard]] bool is_valid_result_path(std::string_view path);

}  // namespace profd
