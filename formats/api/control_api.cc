#include "formats/api/control_api.h"

#include <algorithm>
#include <utility>

#include "formats/base/json_members.h"

namespace profd {
namespace {

constexpr std::size_t kMaxPathBytes = 1024;
constexpr auto kMaxPathDepth = 8;
constexpr std::size_t kMaxIdBytes = 64;

struct Started {
  std::string session;
};

struct SessionList {
  std::vector<SessionInfo> sessions;
};

bool is_alphanumeric_or(std::string_view others, std::string_view text) {
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
      .required("files", result.files)
      .optional("named_profile", result.named_profile)
      .optional("note", result.note);
}

void members(auto& fields, Is<Started> auto& answer) { fields.required("session", answer.session); }

void members(auto& fields, Is<SessionList> auto& list) {
  fields.required("sessions", list.sessions);
}

std::string to_json(const SessionInfo& session) { return json_text(json_of(session)); }

std::string to_json(const std::vector<SessionInfo>& sessions) {
  return json_text(json_of(SessionList{sessions}));
}

std::string to_json(const ResultInfo& result) { return json_text(json_of(result)); }

std::string started_json(const std::string& session) {
  return json_text(json_of(Started{session}));
}

Result<std::string> parse_started(std::string_view text) {
  auto answer = parse_as<Started>(text);
  if (!answer) return answer.error();
  return std::move(answer->session);
}

Result<SessionInfo> parse_session_info(std::string_view text) {
  return parse_as<SessionInfo>(text);
}

Result<std::vector<SessionInfo>> parse_session_list(std::string_view text) {
  auto list = parse_as<SessionList>(text);
  if (!list) return list.error();
  return std::move(list->sessions);
}

Result<ResultInfo> parse_result_info(std::string_view text) { return parse_as<ResultInfo>(text); }

bool is_valid_id(std::string_view id) {
  return !id.empty() && id.size() <= kMaxIdBytes && is_alphanumeric_or("_-", id);
}

bool is_valid_result_path(std::string_view path) {
  if (path.size() > kMaxPathBytes || !is_alphanumeric_or("._+-/", path)) return false;
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
