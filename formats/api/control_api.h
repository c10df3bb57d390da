// Sessions and their results as JSON bodies of the control socket, for the daemon and profctl, and
// the ids and paths that both accept. docs/api.md describes them.
//
// Parsing checks types and ranges, so that neither side sees a half-valid value. Unknown members
// are skipped, so that an older profctl can talk to a newer daemon.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/api/session_summary.h"
#include "formats/api/start_request.h"
#include "formats/base/result.h"

namespace profd {

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
  std::string path;  // relative to the result's directory
  std::uint64_t bytes = 0;

  friend bool operator==(const ResultFile&, const ResultFile&) = default;
};

struct ResultInfo {
  std::string result;
  SessionSummary summary;
  std::vector<ResultFile> files;  // of the result's directory
  // The same samples of all processes in one profile.proto with names. None: the result has none.
  std::optional<ResultFile> named_profile{};
  // How the samples of an export differ from what was asked for. None: they do not.
  std::optional<std::string> note{};

  friend bool operator==(const ResultInfo&, const ResultInfo&) = default;
};

[[nodiscard]] std::string to_json(const SessionInfo& session);
[[nodiscard]] std::string to_json(const std::vector<SessionInfo>& sessions);  // {"sessions":[...]}
[[nodiscard]] std::string to_json(const ResultInfo& result);
[[nodiscard]] std::string started_json(const std::string& session);  // {"session":"ID"}

[[nodiscard]] Result<std::string> parse_started(std::string_view json);
[[nodiscard]] Result<SessionInfo> parse_session_info(std::string_view json);
[[nodiscard]] Result<std::vector<SessionInfo>> parse_session_list(std::string_view json);
[[nodiscard]] Result<ResultInfo> parse_result_info(std::string_view json);

// Checks of names that the other side sent, before they become part of a path. An id has 1 to 64
// characters of [A-Za-z0-9_-]. The path of a result's file has at most 1024 bytes and 8 components
// of [A-Za-z0-9._+-], none of which is "." or "..".
[[nodiscard]] bool is_valid_id(std::string_view id);
[[nodiscard]] bool is_valid_result_path(std::string_view path);

}  // namespace profd
