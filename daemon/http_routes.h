// The control socket's routes: from a request's method, target and body to one verb of the Service,
// and its answer.
//
// docs/api.md lists them. Nothing of HTTP's transport is known here; ids and paths are checked for
// their characters before anyone sees them.

#pragma once

#include <optional>
#include <string>

#include <boost/asio/awaitable.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/verb.hpp>

#include "daemon/service.h"

namespace profd {

struct Request {
  boost::beast::http::verb method = boost::beast::http::verb::unknown;
  std::string target;
  std::string body;
};

struct Reply {
  boost::beast::http::status status = boost::beast::http::status::ok;
  std::string json;                // empty: none
  std::optional<OpenedFile> file;  // instead of json
};

// `request` may be taken apart; it and `service` must live until the answer is there.
[[nodiscard]] boost::asio::awaitable<Reply> answer(Service& service, Caller caller,
                                                   Request& request);

[[nodiscard]] Reply reply_error(const Error& error);
[[nodiscard]] boost::beast::http::status http_status(ErrorCode code);

}  // namespace profd
