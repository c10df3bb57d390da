#include "ctl/client/http_client.h"

#include <optional>
#include <utility>

#include <boost/beast/http/error.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>

namespace profd {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

// Below the 10 s after which profd closes an idle connection.
constexpr std::chrono::seconds kMaxIdle{5};

Error not_running(const std::string& path) {
  return fail(ErrorCode::kUnavailable, "profd is not running: nobody listens on " + path,
              "start it as root, or give its socket with --socket");
}

Error explain(const error_code& error, const HttpClient::Limits& limits) {
  if (error == asio::error::timed_out) {
    return fail(
        ErrorCode::kUnavailable,
        "profd did not answer within " + std::to_string(limits.answer.count() / 1000) + " s",
        "its log says what it does");
  }
  if (error == http::error::body_limit || error == http::error::buffer_overflow) {
    return fail(ErrorCode::kMalformed, "profd's answer is longer than it may be");
  }
  const bool is_http = error.category() == make_error_code(http::error::bad_method).category();
  if (is_http && error != http::error::end_of_stream && error != http::error::partial_message) {
    return fail(ErrorCode::kMalformed, "profd's answer is no HTTP: " + error.message());
  }
  return fail(ErrorCode::kUnavailable, "profd closed the connection before its answer was whole",
              "its log says why");
}

}  // namespace

HttpClient::HttpClient(std::string socket) : path_(std::move(socket)) {}

template <class Start>
error_code HttpClient::run(std::chrono::milliseconds limit, Start start) {
  std::optional<error_code> result;
  start([&result](error_code error, std::size_t) { result = error; });
  io_.restart();
  io_.run_for(limit);
  if (result) return *result;
  error_code ignored;
  socket_.close(ignored);
  io_.run();
  return asio::error::timed_out;
}

Result<void> HttpClient::connect() {
  error_code error;
  if (socket_.is_open()) socket_.close(error);
  buffer_.clear();
  if (path_.empty() || path_.size() >= sizeof(sockaddr_un::sun_path)) {
    return fail(ErrorCode::kInvalidArgument, "\"" + path_ + "\" can't be a socket's path");
  }
  socket_.connect(asio::local::stream_protocol::endpoint(path_), error);
  if (!error) return {};
  socket_.close();
  if (error == asio::error::connection_refused || error.value() == ENOENT)
    return not_running(path_);
  return fail_errno("could not connect to " + path_, error.value());
}

error_code HttpClient::send(const Request& request, const Limits& limits) {
  return run(limits.answer,
             [&](auto done) { http::async_write(socket_, request, std::move(done)); });
}

error_code HttpClient::receive(Parser& parser, const Limits& limits) {
  std::chrono::milliseconds limit = limits.answer;
  while (!parser.is_done()) {
    const error_code error = run(limit, [&](auto done) {
      http::async_read_some(socket_, buffer_, parser, std::move(done));
    });
    if (error) return error;
    limit = limits.stall;
  }
  return {};
}

Result<HttpAnswer> HttpClient::request(http::verb method, const std::string& target,
                                       const std::string& body, const Limits& limits) {
  const bool stale = std::chrono::steady_clock::now() - last_used_ > kMaxIdle;
  if (!socket_.is_open() || stale) {
    if (auto connected = connect(); !connected) return connected.error();
  }
  Request request(method, target, 11);
  request.set(http::field::host, "profd");
  request.body() = body;
  request.prepare_payload();
  bool taken = true;
  auto answer = try_request(request, limits, taken);
  if (answer || taken) return answer;
  if (auto connected = connect(); !connected) return connected.error();
  return try_request(request, limits, taken);
}

Result<HttpAnswer> HttpClient::try_request(const Request& request, const Limits& limits,
                                           bool& taken) {
  // A server that turns us away answers without reading: its answer counts more than our failed
  // write.
  const error_code sent = send(request, limits);
  Parser parser;
  parser.body_limit(limits.body_bytes);
  const error_code received = sent == asio::error::timed_out ? sent : receive(parser, limits);
  last_used_ = std::chrono::steady_clock::now();
  error_code ignored;
  if (received || !parser.get().keep_alive()) socket_.close(ignored);
  taken = !received || sent != asio::error::broken_pipe;
  if (received) return explain(received, limits);
  return HttpAnswer{parser.get().result_int(), std::move(parser.get().body())};
}

}  // namespace profd
