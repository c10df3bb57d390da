// HTTP/1.1 on a UNIX socket, one request at a time, blocking, with a time limit on every step.
//
// The connection is kept between requests and renewed when it was idle for longer than a server
// keeps one. One that the server gives up before it has taken the request, as it does when it ends,
// is renewed too: over a restart, with a socket that the service manager holds, nothing is lost.
// Errors: kUnavailable when nobody listens, answers in time, or stays until the answer's end;
// kMalformed for an answer that is no HTTP or breaks its own lengths.

#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/verb.hpp>

#include "formats/base/result.h"

namespace profd {

struct HttpAnswer {
  unsigned status = 0;
  std::string body;
};

class HttpClient {
 public:
  struct Limits {
    std::chrono::milliseconds answer{10'000};  // until the answer begins
    std::chrono::milliseconds stall{30'000};   // between any two pieces of it
    std::size_t body_bytes = std::size_t{256} << 20;
  };

  explicit HttpClient(std::string socket);

  Result<HttpAnswer> request(boost::beast::http::verb method, const std::string& target,
                             const std::string& body, const Limits& limits);

 private:
  using Request = boost::beast::http::request<boost::beast::http::string_body>;
  using Parser = boost::beast::http::response_parser<boost::beast::http::string_body>;

  // One try. `taken` says whether the server may have taken the request.
  Result<HttpAnswer> try_request(const Request& request, const Limits& limits, bool& taken);

  Result<void> connect();
  boost::system::error_code send(const Request& request, const Limits& limits);
  boost::system::error_code receive(Parser& parser, const Limits& limits);

  // Starts an operation of the socket and runs it to its end, or to `limit`, where the connection
  // is given up.
  template <class Start>
  boost::system::error_code run(std::chrono::milliseconds limit, Start start);

  std::string path_;
  boost::asio::io_context io_{1};
  boost::asio::local::stream_protocol::socket socket_{io_};
  boost::beast::flat_buffer buffer_;
  std::chrono::steady_clock::time_point last_used_;
};

}  // namespace profd
