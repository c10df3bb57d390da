#include "ctl/client/client.h"

#include <algorithm>
#include <set>
#include <utility>

#include "formats/api/error_json.h"
#include "formats/base/utf8_text.h"

namespace profd {
namespace {

// More than any profile has.
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 30;

constexpr std::size_t kMaxMetricsBytes = std::size_t{4} << 20;

// An error may arrive instead of a file, and be longer than it.
constexpr std::uint64_t kMaxErrorBytes = std::uint64_t{64} << 10;

Error invalid_answer(const std::string& what) {
  return fail(ErrorCode::kMalformed, "the answer of profd is invalid: " + what,
              "check that profd and profctl have the same version: profctl doctor");
}

Result<void> check_result(const ResultInfo& result) {
  if (!is_valid_id(result.result))
    return invalid_answer("the result has the id '" + result.result + "'");
  std::set<std::string> paths;
  for (const ResultFile& file : result.files) {
    if (!is_valid_result_path(file.path)) {
      return invalid_answer("a file has the path '" + file.path + "'");
    }
    if (!paths.insert(file.path).second) return invalid_answer(file.path + " is listed twice");
    if (file.bytes > kMaxFileBytes) {
      return invalid_answer(file.path + " has " + std::to_string(file.bytes) + " bytes");
    }
  }
  // Where the profile with names is all that was asked for, the others have no path.
  for (const ProfileSummary& profile : result.summary.profiles) {
    if (!profile.path.empty() && !paths.contains(profile.path)) {
      return invalid_answer("the profile " + profile.path + " is not among the files");
    }
  }
  return {};
}

}  // namespace

Result<void> check_session_id(const std::string& id) {
  if (is_valid_id(id)) return {};
  return fail(ErrorCode::kNotFound, "no session has the id '" + valid_utf8(id, 60) + "'",
              "'profctl list' shows the sessions");
}

Result<std::string> Client::ask(const std::string& method, const std::string& target,
                                const std::string& body, const HttpClient::Limits& limits) {
  auto answer = http_.request(method, target, body, limits);
  if (!answer) return answer.error();
  if (answer->status / 100 != 2) return parse_error(answer->body);
  return std::move(answer->body);
}

template <class T>
Result<T> Client::ask_for(const std::string& method, const std::string& target,
                          const std::string& body, Result<T> (*parse)(std::string_view),
                          std::chrono::milliseconds answer_limit) {
  const auto answer = ask(method, target, body, {.answer = answer_limit, .stall = limits_.stall});
  if (!answer) return answer.error();
  Result<T> parsed = parse(*answer);
  if (!parsed) return invalid_answer(parsed.error().message);
  return parsed;
}

Result<StatusInfo> Client::status() {
  return ask_for("GET", "/v1/status", {}, parse_status_info, limits_.answer);
}

Result<std::string> Client::metrics() {
  return ask("GET", "/metrics", {},
             {.answer = limits_.answer,
              .stall = limits_.stall,
              .body_bytes = kMaxMetricsBytes,
              .stop_fd = limits_.stop_fd});
}

Result<ConfigInfo> Client::configuration() {
  return ask_for("GET", "/v1/config", {}, parse_config_info, limits_.answer);
}

Result<std::vector<SessionInfo>> Client::sessions() {
  return ask_for("GET", "/v1/sessions", {}, parse_session_list, limits_.answer);
}

Result<SessionInfo> Client::session(const std::string& id) {
  if (auto checked = check_session_id(id); !checked) return checked.error();
  return ask_for("GET", "/v1/sessions/" + id, {}, parse_session_info, limits_.answer);
}

Result<std::string> Client::start(const StartRequest& request) {
  auto id = ask_for("POST", "/v1/sessions", to_json(request), parse_started, limits_.answer);
  if (id && !is_valid_id(*id)) return invalid_answer("the session has the id '" + *id + "'");
  return id;
}

Result<ResultInfo> Client::stop(const std::string& id) {
  if (auto checked = check_session_id(id); !checked) return checked.error();
  return ask_for_result("/v1/sessions/" + id + "/stop", {});
}

Result<ResultInfo> Client::dump(const std::string& id) {
  if (auto checked = check_session_id(id); !checked) return checked.error();
  return ask_for_result("/v1/sessions/" + id + "/dump", {});
}

Result<std::string> Client::take(const std::string& id) {
  if (auto checked = check_session_id(id); !checked) return checked.error();
  return ask("POST", "/v1/sessions/" + id + "/take", {},
             {.answer = limits_.encode, .stall = limits_.stall});
}

Result<ResultInfo> Client::export_windows(const ExportRequest& request) {
  return ask_for_result("/v1/exports", to_json(request));
}

Result<ResultInfo> Client::ask_for_result(const std::string& target, const std::string& body) {
  auto result = ask_for("POST", target, body, parse_result_info, limits_.encode);
  if (!result) return result;
  if (auto checked = check_result(*result); !checked) return checked.error();
  return result;
}

Result<History> Client::history(const HistoryRequest& request) {
  return ask_for("POST", "/v1/history", to_json(request), parse_history, limits_.encode);
}

Result<WindowShares> Client::last_window() {
  return ask_for("GET", "/v1/history/last", {}, parse_window_shares, limits_.encode);
}

Result<WindowNames> Client::windows_after(const std::string& name) {
  const std::string target = "/v1/windows" + (name.empty() ? "" : "?after=" + name);
  const auto answer =
      ask("GET", target, {},
          {.answer = limits_.window, .stall = limits_.stall, .stop_fd = limits_.stop_fd});
  if (!answer) return answer.error();
  auto names = parse_window_names(*answer);
  if (!names) return invalid_answer(names.error().message);
  const bool is_valid = std::ranges::all_of(names->windows, is_valid_id) &&
                        std::ranges::all_of(names->removed, is_valid_id);
  if (is_valid) return names;
  return invalid_answer("a window has an invalid name");
}

Result<std::string> Client::window(const std::string& name) {
  if (!is_valid_id(name)) return fail(ErrorCode::kNotFound, "no window has such a name");
  return ask("GET", "/v1/windows/" + name, {},
             {.answer = limits_.encode, .stall = limits_.stall, .stop_fd = limits_.stop_fd});
}

Result<std::string> Client::fetch(const std::string& result, const ResultFile& file) {
  const HttpClient::Limits limits{.answer = limits_.answer,
                                  .stall = limits_.stall,
                                  .body_bytes = std::max(file.bytes, kMaxErrorBytes)};
  auto bytes = ask("GET", "/v1/results/" + result + "/files/" + file.path, {}, limits);
  if (bytes && bytes->size() != file.bytes) {
    return invalid_answer(file.path + " has " + std::to_string(bytes->size()) + " bytes, not " +
                          std::to_string(file.bytes));
  }
  return bytes;
}

Result<void> Client::remove(const std::string& result) {
  const auto body = ask("DELETE", "/v1/results/" + result, {},
                        {.answer = limits_.answer, .stall = limits_.stall});
  if (!body) return body.error();
  return {};
}

}  // namespace profd
