// The control socket's routes: from a request's method, target and body to one verb of the Service,
// and its answer.
//
// docs/api.md lists them. Nothing of HTTP's transport is known here; ids and paths are checked for
// their characters before anyone sees them.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/verb.hpp>

#include "daemon/control/service.h"

namespace profd {

struct Request {
  boost::beast::http::verb method = boost::beast::http::verb::unknown;
  std::string target;
  std::string body;
};

struct Reply {
  boost::beast::http::status status = boost::beast::http::status::ok;
  std::string text;  // empty: none
  std::string_view content_type = "application/json";
  std::optional<OpenedFile> file;  // instead of text
};

// What routes are answered from. Connections are what the server counts, for status.
struct RouteContext {
  Service& service;
  const StatusInfo::Connections& connections;
};

// `request` may be taken apart; it and what `context` names must live until the answer is there.
[[nodiscard]] boost::asio::awaitable<Reply> answer(RouteContext context, Caller caller,
                                                   Request& request);

// "GET /v1/sessions/ID", ...: every one that there is.
[[nodiscard]] std::vector<std::string> route_names();

[[nodiscard]] Reply reply_error(const Error& error);
[[nodiscard]] boost::beast::http::status http_status(ErrorCode code);

}  // namespace profd
