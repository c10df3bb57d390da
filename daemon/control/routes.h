// The routes of the control socket: a request's method, target and body become one call of the
// Service, and its result becomes an answer.
//
// docs/api.md lists the routes. HTTP's transport is not known here. The characters of ids and paths
// are checked before the Service gets them.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/verb.hpp>

#include "daemon/control/service.h"
#include "daemon/control/shared_answers.h"

namespace profd {

struct Request {
  boost::beast::http::verb method = boost::beast::http::verb::unknown;
  std::string target;
  std::string body;
};

struct Reply {
  boost::beast::http::status status = boost::beast::http::status::ok;
  std::string text;
  std::string_view content_type = "application/json";
  std::optional<OpenedFile> file;  // instead of text
  std::optional<ErrorCode> error;  // the reason of reply_error()
};

// `connections` are the server's own counts, for status. `request` is moved from. All references,
// and what `is_wanted` refers to, must be valid until the answer is complete.
[[nodiscard]] boost::asio::awaitable<Reply> answer(Service& service,
                                                   const StatusInfo::Connections& connections,
                                                   SharedAnswers& shared, Caller caller,
                                                   Request& request, IsWanted is_wanted);

// All routes: "GET /v1/sessions/ID", ...
[[nodiscard]] std::vector<std::string> route_names();

[[nodiscard]] Reply reply_error(const Error& error);

// Counts an error of a request for which the caller or its limits are the reason. `what` is a name
// of route_names(), or kAnyRequest.
inline constexpr std::string_view kAnyRequest = "request";
void count_refusal(Service& service, const Caller& caller, std::string_view what, ErrorCode code);

}  // namespace profd
