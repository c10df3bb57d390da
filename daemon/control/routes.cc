#include "daemon/control/routes.h"

#include <algorithm>
#include <array>
#include <functional>
#include <string_view>
#include <utility>

#include "daemon/control/host_profile.h"
#include "daemon/control/metrics.h"
#include "formats/api/control_api.h"
#include "formats/api/error_json.h"
#include "formats/api/history_api.h"
#include "formats/api/metrics_text.h"

namespace profd {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

// A request and its caller, as the handlers get them.
struct Exchange {
  Service& service;
  const StatusInfo::Connections& connections;
  SharedAnswers& shared;
  Caller caller;
  IsWanted is_wanted;
  std::string id;     // where the pattern says ID
  std::string path;   // where the pattern says PATH
  std::string query;  // after the "?"
  std::string body;
};

// The only routes with a query.
constexpr std::string_view kWindows = "/v1/windows";
constexpr std::string_view kHostProfile = "/debug/pprof/profile";

using Handler = asio::awaitable<Reply> (*)(Exchange& exchange);

struct Route {
  http::verb method;
  std::string_view pattern;
  Handler handler;
};

Reply reply_json(std::string json, http::status status = http::status::ok) {
  Reply reply;
  reply.status = status;
  reply.text = std::move(json);
  return reply;
}

template <class T>
Reply reply(const Result<T>& result) {
  return result ? reply_json(to_json(*result)) : reply_error(result.error());
}

// Of an answer that can be large.
template <class T>
asio::awaitable<Reply> reply_encoded(Exchange& exchange, Result<T> answer) {
  if (!answer) co_return reply_error(answer.error());
  auto encoding = exchange.service.encode(exchange.caller, std::move(*answer));
  Result<std::string> json = co_await std::move(encoding);
  if (!json) co_return reply_error(json.error());
  co_return reply_json(std::move(*json));
}

StatusInfo status_for(Exchange& exchange) {
  StatusInfo status = exchange.service.status(exchange.caller);
  status.connections = exchange.connections;
  return status;
}

// Privileged callers get an answer of their own.
std::string share(Exchange& exchange, std::string_view name,
                  const std::function<std::string()>& make) {
  return exchange.caller.privileged ? make() : exchange.shared.find_or_make(name, make);
}

std::string status_text(Exchange& exchange) {
  return share(exchange, "status", [&exchange] { return to_json(status_for(exchange)); });
}

std::string metrics_text(Exchange& exchange) {
  return share(exchange, "metrics", [&exchange] {
    return metrics_of(status_for(exchange), exchange.service.status_reasons());
  });
}

asio::awaitable<Reply> get_status(Exchange& exchange) {
  co_return reply_json(status_text(exchange));
}

asio::awaitable<Reply> get_metrics(Exchange& exchange) {
  Reply reply;
  reply.text = metrics_text(exchange);
  reply.content_type = kMetricsContentType;
  co_return reply;
}

asio::awaitable<Reply> get_config(Exchange& exchange) {
  co_return reply(exchange.service.configuration(exchange.caller));
}

asio::awaitable<Reply> start_session(Exchange& exchange) {
  auto request = parse_start_request(exchange.body);
  if (!request) co_return reply_error(request.error());
  auto operation = exchange.service.start(exchange.caller, std::move(*request));
  const auto session = co_await std::move(operation);
  if (!session) co_return reply_error(session.error());
  co_return reply_json(started_json(*session), http::status::created);
}

asio::awaitable<Reply> list_sessions(Exchange& exchange) {
  co_return reply_json(to_json(exchange.service.sessions(exchange.caller)));
}

asio::awaitable<Reply> get_session(Exchange& exchange) {
  co_return reply(exchange.service.session(exchange.caller, exchange.id));
}

asio::awaitable<Reply> stop_session(Exchange& exchange) {
  auto operation = exchange.service.stop(exchange.caller, exchange.id);
  auto result = co_await std::move(operation);
  auto encoding = reply_encoded(exchange, std::move(result));
  co_return co_await std::move(encoding);
}

asio::awaitable<Reply> dump_session(Exchange& exchange) {
  auto operation = exchange.service.dump(exchange.caller, exchange.id);
  auto result = co_await std::move(operation);
  auto encoding = reply_encoded(exchange, std::move(result));
  co_return co_await std::move(encoding);
}

Reply reply_bytes(Result<std::string> bytes) {
  if (!bytes) return reply_error(bytes.error());
  Reply reply;
  reply.content_type = "application/octet-stream";
  reply.text = std::move(*bytes);
  return reply;
}

asio::awaitable<Reply> take_from_session(Exchange& exchange) {
  auto operation = exchange.service.take(exchange.caller, exchange.id);
  co_return reply_bytes(co_await std::move(operation));
}

asio::awaitable<Reply> make_export(Exchange& exchange) {
  auto request = parse_export_request(exchange.body);
  if (!request) co_return reply_error(request.error());
  auto operation = exchange.service.export_windows(exchange.caller, std::move(*request));
  auto result = co_await std::move(operation);
  auto encoding = reply_encoded(exchange, std::move(result));
  co_return co_await std::move(encoding);
}

asio::awaitable<Reply> list_windows(Exchange& exchange) {
  const auto request = parse_history_request(exchange.body);
  if (!request) co_return reply_error(request.error());
  auto operation = exchange.service.history(exchange.caller, *request);
  auto history = co_await std::move(operation);
  auto encoding = reply_encoded(exchange, std::move(history));
  co_return co_await std::move(encoding);
}

asio::awaitable<Reply> get_last_window(Exchange& exchange) {
  auto operation = exchange.service.last_window(exchange.caller);
  auto window = co_await std::move(operation);
  auto encoding = reply_encoded(exchange, std::move(window));
  co_return co_await std::move(encoding);
}

// Of a window: NAME or, as its file is called, NAME.pb.gz.
std::string_view window_name(std::string_view text) {
  constexpr std::string_view kEnd = ".pb.gz";
  if (text.ends_with(kEnd)) text.remove_suffix(kEnd.size());
  return text;
}

asio::awaitable<Reply> get_windows(Exchange& exchange) {
  constexpr std::string_view kAfter = "after=";
  std::string after;
  if (exchange.query.starts_with(kAfter)) after = exchange.query.substr(kAfter.size());
  if (exchange.query.size() != after.size() + (after.empty() ? 0 : kAfter.size())) {
    co_return reply_error(fail(ErrorCode::kInvalidArgument, "expected ?after=NAME"));
  }
  auto operation = exchange.service.windows_after(exchange.caller, std::string(window_name(after)),
                                                  exchange.is_wanted);
  co_return reply(co_await std::move(operation));
}

asio::awaitable<Reply> get_window(Exchange& exchange) {
  auto operation = exchange.service.window_file(exchange.caller, exchange.id);
  co_return reply_bytes(co_await std::move(operation));
}

Reply reply_file(Result<OpenedFile> file) {
  if (!file) return reply_error(file.error());
  Reply reply;
  reply.content_type = "application/octet-stream";
  reply.file = std::move(*file);
  return reply;
}

asio::awaitable<Reply> get_host_profile(Exchange& exchange) {
  const auto time = parse_profile_query(exchange.query);
  if (!time) co_return reply_error(time.error());
  auto operation = profile_host(exchange.service, exchange.caller, *time, exchange.is_wanted);
  co_return reply_file(co_await std::move(operation));
}

asio::awaitable<Reply> get_file(Exchange& exchange) {
  co_return reply_file(
      exchange.service.open_result_file(exchange.caller, exchange.id, exchange.path));
}

asio::awaitable<Reply> delete_result(Exchange& exchange) {
  const auto removed = exchange.service.remove_result(exchange.caller, exchange.id);
  if (!removed) co_return reply_error(removed.error());
  co_return reply_json({}, http::status::no_content);
}

constexpr auto kRoutes = std::to_array<Route>({
    {http::verb::get, "/metrics", get_metrics},
    {http::verb::get, "/v1/status", get_status},
    {http::verb::get, "/v1/config", get_config},
    {http::verb::post, "/v1/sessions", start_session},
    {http::verb::get, "/v1/sessions", list_sessions},
    {http::verb::get, "/v1/sessions/ID", get_session},
    {http::verb::post, "/v1/sessions/ID/stop", stop_session},
    {http::verb::post, "/v1/sessions/ID/dump", dump_session},
    {http::verb::post, "/v1/sessions/ID/take", take_from_session},
    {http::verb::post, "/v1/exports", make_export},
    {http::verb::post, "/v1/history", list_windows},
    {http::verb::get, "/v1/history/last", get_last_window},
    {http::verb::get, kWindows, get_windows},
    {http::verb::get, "/v1/windows/ID", get_window},
    {http::verb::get, kHostProfile, get_host_profile},
    {http::verb::get, "/v1/results/ID/files/PATH", get_file},
    {http::verb::delete_, "/v1/results/ID", delete_result},
});

// Returns the path's first component and removes it with its slash.
std::string_view take_component(std::string_view& path) {
  const std::string_view component = path.substr(0, path.find('/'));
  path.remove_prefix(component.size() < path.size() ? component.size() + 1 : path.size());
  return component;
}

// Sets the exchange's id and path where the pattern has them.
bool matches(std::string_view pattern, std::string_view target, Exchange& exchange) {
  const bool ends_alike = pattern.ends_with('/') == target.ends_with('/');
  while (ends_alike && !pattern.empty()) {
    if (pattern == "PATH") {
      exchange.path = target;
      return is_valid_result_path(target);
    }
    const std::string_view expected = take_component(pattern);
    const std::string_view component = take_component(target);
    if (expected == "ID" && is_valid_id(component)) {
      exchange.id = component;
    } else if (component != expected || expected == "ID") {
      return false;
    }
  }
  return ends_alike && target.empty();
}

// What is not there, and what the host or profd can't do, is not refused.
bool is_refusal(ErrorCode code) {
  return code == ErrorCode::kInvalidArgument || code == ErrorCode::kMalformed ||
         code == ErrorCode::kPermissionDenied || code == ErrorCode::kBusy ||
         code == ErrorCode::kTooLarge;
}

std::string name_of(const Route& route) {
  return std::string(http::to_string(route.method)) + " " + std::string(route.pattern);
}

}  // namespace

Reply reply_error(const Error& error) {
  Reply reply = reply_json(to_json(error), http::status{http_status_of(error.code)});
  reply.error = error.code;
  return reply;
}

void count_refusal(Service& service, const Caller& caller, std::string_view what, ErrorCode code) {
  if (!is_refusal(code)) return;
  service.count_refusal(caller, std::string(what) + ": " + std::string(error_code_name(code)));
}

std::vector<std::string> route_names() {
  std::vector<std::string> names;
  names.reserve(kRoutes.size());
  for (const Route& route : kRoutes) names.push_back(name_of(route));
  return names;
}

asio::awaitable<Reply> answer(Service& service, const StatusInfo::Connections& connections,
                              SharedAnswers& shared, Caller caller, Request& request,
                              IsWanted is_wanted) {
  Exchange exchange{.service = service,
                    .connections = connections,
                    .shared = shared,
                    .caller = caller,
                    .is_wanted = std::move(is_wanted),
                    .id = {},
                    .path = {},
                    .query = {},
                    .body = std::move(request.body)};
  const std::size_t mark = request.target.find('?');
  const std::string_view path = std::string_view(request.target).substr(0, mark);
  if (mark != std::string::npos && (path == kWindows || path == kHostProfile)) {
    exchange.query = request.target.substr(mark + 1);
    request.target.resize(mark);
  } else if (mark == std::string::npos && path.starts_with("/v1/windows/")) {
    request.target.resize(window_name(path).size());
  }
  bool is_known = false;
  for (const Route& route : kRoutes) {
    if (!matches(route.pattern, request.target, exchange)) continue;
    is_known = true;
    if (route.method == request.method) {
      auto handling = route.handler(exchange);
      Reply reply = co_await std::move(handling);
      if (reply.error) count_refusal(service, caller, name_of(route), *reply.error);
      co_return reply;
    }
  }
  if (!is_known) co_return reply_error(fail(ErrorCode::kNotFound, "no such path"));
  Reply reply = reply_error(fail(ErrorCode::kInvalidArgument, "no such method for this path"));
  reply.status = http::status::method_not_allowed;
  count_refusal(service, caller, kAnyRequest, ErrorCode::kInvalidArgument);
  co_return reply;
}

}  // namespace profd
