#include "formats/api/control_api.h"

#include <algorithm>
#include <utility>

#include "formats/api/json_members.h"
#include "formats/api/session_summary_json.h"
#include "formats/api/start_request_json.h"

namespace profd {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxDepth = 12;
constexpr std::size_t kMaxPathBytes = 1024;
constexpr auto kMaxPathDepth = 8;
constexpr std::size_t kMaxIdBytes = 64;

bool is_all_of(std::string_view text, std::string_view others) {
  return std::ranges::all_of(text, [others](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           others.find(c) != std::string_view::npos;
  });
}

}  // namespace

void members(auto& fields, Is<SessionInfo> auto& session) {
  fields.required("session", session.session)
      .required("state", session.state)
      .required("target", session.target)
      .required("event", session.event)
      .optional("frequency", session.frequency_hz)
      .optional("period", session.period)
      .required("started", session.started)
      .required("seconds", session.seconds)
      .required("samples", session.samples)
      .required("lost", session.lost)
      .optional("uid", session.uid)
      .optional("targets_alive", session.targets_alive);
}

void members(auto& fields, Is<ResultFile> auto& file) {
  fields.required("path", file.path).required("bytes", file.bytes);
}

void members(auto& fields, Is<ResultInfo> auto& result) {
  fields.required("result", result.result)
      .required("summary", result.summary)
      .required("files", result.files);
}

std::string to_json(const SessionInfo& session) { return json_text(json_of(session)); }

std::string to_json(const std::vector<SessionInfo>& sessions) {
  return json_text(json::object{{"sessions", json_of(sessions)}});
}

std::string to_json(const ResultInfo& result) { return json_text(json_of(result)); }

std::string started_json(const std::string& session) {
  return json_text(json::object{{"session", session}});
}

Result<std::string> parse_started(std::string_view text) {
  const auto value = parse_json(text, kMaxDepth);
  if (!value) return value.error();
  std::string session;
  if (auto read = JsonFields(*value).required("session", session).finish(); !read) {
    return read.error();
  }
  return session;
}

Result<SessionInfo> parse_session_info(std::string_view text) {
  return parse_as<SessionInfo>(text, kMaxDepth);
}

Result<std::vector<SessionInfo>> parse_session_list(std::string_view text) {
  const auto value = parse_json(text, kMaxDepth);
  if (!value) return value.error();
  std::vector<SessionInfo> sessions;
  if (auto read = JsonFields(*value).required("sessions", sessions).finish(); !read) {
    return read.error();
  }
  return sessions;
}

Result<ResultInfo> parse_result_info(std::string_view text) {
  return parse_as<ResultInfo>(text, kMaxDepth);
}

bool is_valid_id(std::string_view id) {
  return !id.empty() && id.size() <= kMaxIdBytes && is_all_of(id, "_-");
}

bool is_valid_result_path(std::string_view path) {
  if (path.size() > kMaxPathBytes || !is_all_of(path, "._+-/")) return false;
  for (int depth = 0; depth < kMaxPathDepth; ++depth) {
    const std::size_t slash = path.find('/');
    const std::string_view component = path.substr(0, slash);
    if (component.empty() || component == "." || component == "..") return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
  return false;
}

}  // namespace profd
