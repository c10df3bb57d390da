#include "ctl/client/client.h"

#include <algorithm>
#include <set>
#include <utility>

#include "formats/api/error_json.h"

namespace profd {
namespace {

// More than any profile has; a length above it is a mistake or a lie.
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 30;

// An error may come instead of a file, and be longer than it.
constexpr std::uint64_t kMaxErrorBytes = std::uint64_t{64} << 10;

Error unbelievable(const std::string& what) {
  return fail(ErrorCode::kMalformed, "profd's answer makes no sense: " + what,
              "check that profd and profctl are of one version: profctl status");
}

Result<void> check_id(const std::string& id) {
  if (is_valid_id(id)) return {};
  return fail(ErrorCode::kNotFound, "no session has the id \"" + id + "\"",
              "'profctl list' shows the sessions");
}

Result<void> check_result(const ResultInfo& result) {
  if (!is_valid_id(result.result))
    return unbelievable("the result's id is \"" + result.result + "\"");
  std::set<std::string> seen;
  for (const ResultFile& file : result.files) {
    if (!is_valid_result_path(file.path))
      return unbelievable("a file's path is \"" + file.path + "\"");
    if (!seen.insert(file.path).second) return unbelievable(file.path + " is there twice");
    if (file.bytes > kMaxFileBytes) {
      return unbelievable(file.path + " has " + std::to_string(file.bytes) + " bytes");
    }
  }
  for (const ProfileSummary& profile : result.summary.profiles) {
    if (!seen.contains(profile.path)) return unbelievable("there is no file " + profile.path);
  }
  return {};
}

template <class T>
Result<T> believe(const Result<T>& parsed) {
  if (!parsed) return unbelievable(parsed.error().message);
  return *parsed;
}

}  // namespace

Client::Client(std::string socket) : Client(std::move(socket), Limits{}) {}

Client::Client(std::string socket, const Limits& limits)
    : http_(std::move(socket)), limits_(limits) {}

HttpClient::Limits Client::usual() const {
  return {.answer = limits_.answer, .stall = limits_.stall};
}

Result<std::string> Client::ask(Verb method, const std::string& target, const std::string& body,
                                const HttpClient::Limits& limits) {
  auto answer = http_.request(method, target, body, limits);
  if (!answer) return answer.error();
  if (answer->status / 100 != 2) return parse_error(answer->body);
  return std::move(answer->body);
}

Result<StatusInfo> Client::status() {
  const auto body = ask(Verb::get, "/v1/status", {}, usual());
  if (!body) return body.error();
  return believe(parse_status_info(*body));
}

Result<ConfigInfo> Client::configuration() {
  const auto body = ask(Verb::get, "/v1/config", {}, usual());
  if (!body) return body.error();
  return believe(parse_config_info(*body));
}

Result<std::vector<SessionInfo>> Client::sessions() {
  const auto body = ask(Verb::get, "/v1/sessions", {}, usual());
  if (!body) return body.error();
  return believe(parse_session_list(*body));
}

Result<SessionInfo> Client::session(const std::string& id) {
  if (auto checked = check_id(id); !checked) return checked.error();
  const auto body = ask(Verb::get, "/v1/sessions/" + id, {}, usual());
  if (!body) return body.error();
  return believe(parse_session_info(*body));
}

Result<std::string> Client::start(const StartRequest& request) {
  const auto body = ask(Verb::post, "/v1/sessions", to_json(request), usual());
  if (!body) return body.error();
  auto id = believe(parse_started(*body));
  if (id && !is_valid_id(*id)) return unbelievable("the session's id is \"" + *id + "\"");
  return id;
}

Result<ResultInfo> Client::stop(const std::string& id) { return finish(id, "stop"); }
Result<ResultInfo> Client::dump(const std::string& id) { return finish(id, "dump"); }

Result<ResultInfo> Client::finish(const std::string& id, const std::string& verb) {
  if (auto checked = check_id(id); !checked) return checked.error();
  return ask_for_result("/v1/sessions/" + id + "/" + verb, {});
}

Result<ResultInfo> Client::export_windows(const ExportRequest& request) {
  return ask_for_result("/v1/exports", to_json(request));
}

Result<History> Client::history(const HistoryRequest& request) {
  const auto body = ask(Verb::post, "/v1/history", to_json(request), patient());
  if (!body) return body.error();
  return believe(parse_history(*body));
}

Result<WindowShares> Client::last_window() {
  const auto body = ask(Verb::get, "/v1/history/last", {}, patient());
  if (!body) return body.error();
  return believe(parse_window_shares(*body));
}

HttpClient::Limits Client::patient() const {
  HttpClient::Limits limits = usual();
  limits.answer = limits_.encode;
  return limits;
}

Result<ResultInfo> Client::ask_for_result(const std::string& target, const std::string& text) {
  const auto body = ask(Verb::post, target, text, patient());
  if (!body) return body.error();
  auto result = believe(parse_result_info(*body));
  if (!result) return result;
  if (auto checked = check_result(*result); !checked) return checked.error();
  return result;
}

Result<std::string> Client::fetch(const std::string& result, const ResultFile& file) {
  HttpClient::Limits limits = usual();
  limits.body_bytes = std::max(file.bytes, kMaxErrorBytes);
  auto bytes = ask(Verb::get, "/v1/results/" + result + "/files/" + file.path, {}, limits);
  if (bytes && bytes->size() != file.bytes) {
    return unbelievable(file.path + " has " + std::to_string(bytes->size()) + " bytes, not " +
                        std::to_string(file.bytes));
  }
  return bytes;
}

Result<void> Client::remove(const std::string& result) {
  const auto body = ask(Verb::delete_, "/v1/results/" + result, {}, usual());
  if (!body) return body.error();
  return {};
}

}  // namespace profd
