#include "formats/control_api.h"

#include <algorithm>
#include <utility>

#include "formats/json_fields.h"
#include "formats/session_summary_json.h"
#include "formats/start_request_json.h"

namespace profd {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxDepth = 12;
constexpr std::size_t kMaxPathBytes = 1024;
constexpr auto kMaxPathDepth = 8;
constexpr std::size_t kMaxIdBytes = 64;

json::object session_json(const SessionInfo& session) {
  return {{"session", session.session},
          {"state", session.state},
          {"target", target_json(session.target)},
          {"event", session.event},
          {"frequency", session.frequency_hz},
          {"period", session.period},
          {"started", session.started},
          {"seconds", session.seconds},
          {"samples", session.samples},
          {"lost", session.lost},
          {"uid", session.uid},
          {"targets_alive", session.targets_alive}};
}

bool is_all_of(std::string_view text, std::string_view others) {
  return std::ranges::all_of(text, [others](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           others.find(c) != std::string_view::npos;
  });
}

}  // namespace

// The readers are found by their argument's type, hence not in the unnamed namespace.

Result<void> read_json(const json::value& value, SessionInfo& out) {
  return JsonFields(value)
      .required("session", out.session)
      .required("state", out.state)
      .required("target", out.target)
      .required("event", out.event)
      .optional("frequency", out.frequency_hz)
      .optional("period", out.period)
      .required("started", out.started)
      .required("seconds", out.seconds)
      .required("samples", out.samples)
      .required("lost", out.lost)
      .optional("uid", out.uid)
      .optional("targets_alive", out.targets_alive)
      .finish();
}

Result<void> read_json(const json::value& value, ResultFile& out) {
  return JsonFields(value).required("path", out.path).required("bytes", out.bytes).finish();
}

Result<void> read_json(const json::value& value, ResultInfo& out) {
  return JsonFields(value)
      .required("result", out.result)
      .required("summary", out.summary)
      .required("files", out.files)
      .finish();
}

std::string to_json(const SessionInfo& session) { return json_text(session_json(session)); }

std::string to_json(const std::vector<SessionInfo>& sessions) {
  json::array list;
  for (const SessionInfo& session : sessions) list.push_back(session_json(session));
  return json_text(json::object{{"sessions", std::move(list)}});
}

std::string to_json(const ResultInfo& result) {
  json::array files;
  for (const ResultFile& file : result.files) {
    files.push_back(json::object{{"path", file.path}, {"bytes", file.bytes}});
  }
  return json_text(json::object{{"result", result.result},
                                {"summary", summary_json(result.summary)},
                                {"files", std::move(files)}});
}

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
