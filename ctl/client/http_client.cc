#include "ctl/client/http_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "ctl/client/service_commands.h"
#include "formats/base/errors.h"

namespace profd {
namespace {

namespace http = boost::beast::http;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using Parser = http::response_parser<http::string_body>;

// profd closes an idle connection after 10 s.
constexpr std::chrono::seconds kMaxIdle{5};
constexpr std::size_t kReadBytes = std::size_t{64} << 10;

error_code error_of(int error) { return {error, boost::system::system_category()}; }

Error explain(const error_code& error, const HttpClient::Limits& limits) {
  if (error == error_of(ETIMEDOUT)) {
    return fail(
        ErrorCode::kUnavailable,
        "profd did not answer within " + std::to_string(limits.answer.count() / 1000) + " s",
        "see its log: " + std::string(service_commands().log));
  }
  if (error == error_of(ECANCELED)) {
    return fail(ErrorCode::kTimeout, "the request to profd was abandoned");
  }
  if (error == http::error::body_limit || error == http::error::buffer_overflow) {
    return malformed("the answer of profd is longer than allowed");
  }
  const bool is_http = error.category() == make_error_code(http::error::bad_method).category();
  if (is_http && error != http::error::end_of_stream && error != http::error::partial_message) {
    return malformed("the answer of profd is not HTTP: " + error.message());
  }
  return fail(ErrorCode::kUnavailable, "profd closed the connection before its answer was complete",
              "see its log: " + std::string(service_commands().log));
}

// Waits until the socket is ready for `events`. Returns 0 or an errno; ECANCELED: `stop_fd` is
// readable.
int wait_for(int socket, short events, Clock::time_point deadline, int stop_fd) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return ETIMEDOUT;
    std::array<pollfd, 2> ready{pollfd{.fd = socket, .events = events, .revents = 0},
                                pollfd{.fd = stop_fd, .events = POLLIN, .revents = 0}};
    const int count = ::poll(ready.data(), ready.size(), static_cast<int>(left));
    if (count > 0) return ready[0].revents != 0 ? 0 : ECANCELED;
    if (count < 0 && errno != EINTR) return errno;
  }
}

// Returns 0 or an errno.
int send_all(int socket, std::string_view bytes, Clock::time_point deadline, int stop_fd) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno != EINTR && errno != EAGAIN) {
      return errno;
    } else if (const int error = wait_for(socket, POLLOUT, deadline, stop_fd); error != 0) {
      return error;
    }
  }
  return 0;
}

// Gives the parser what is read, until it has the whole answer.
error_code receive(int socket, Parser& parser, const HttpClient::Limits& limits) {
  boost::beast::flat_buffer buffer;
  auto limit = limits.answer;
  parser.eager(true);
  while (!parser.is_done()) {
    const auto space = buffer.prepare(kReadBytes);
    const int error_of_wait = wait_for(socket, POLLIN, Clock::now() + limit, limits.stop_fd);
    if (error_of_wait != 0) return error_of(error_of_wait);
    const ssize_t got = ::recv(socket, space.data(), space.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return error_of(errno);
    error_code error;
    if (got == 0) {
      if (!parser.got_some()) return http::error::end_of_stream;
      parser.put_eof(error);
      return error;
    }
    buffer.commit(static_cast<std::size_t>(got));
    buffer.consume(parser.put(buffer.data(), error));
    if (error && error != http::error::need_more) return error;
    limit = limits.stall;
  }
  return {};
}

}  // namespace

Result<void> HttpClient::connect() {
  if (!preferred_.empty() && connect_to(preferred_)) return {};
  return connect_to(path_);
}

Result<void> HttpClient::connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return invalid_argument("'" + path + "' can't be the path of a socket",
                            "give a path of 1 to 107 bytes with --socket");
  }
  std::ranges::copy(path, address.sun_path);
  socket_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket_.valid()) return fail_errno("could not make a socket");
  const auto* const generic = reinterpret_cast<const sockaddr*>(&address);
  if (::connect(socket_.get(), generic, sizeof(address)) == 0) return {};
  const int error = errno;
  socket_.reset();
  if (error != ECONNREFUSED && error != ENOENT) {
    return fail_errno("could not connect to " + path, error);
  }
  return fail(
      ErrorCode::kUnavailable, "profd is not running: nothing listens on " + path,
      "start it: " + std::string(service_commands().start) + "; or give its socket with --socket");
}

Result<HttpAnswer> HttpClient::request(std::string_view method, const std::string& target,
                                       const std::string& body, const Limits& limits) {
  std::string request(method);
  request.append(" ").append(target).append(" HTTP/1.1\r\nHost: profd\r\nContent-Length: ");
  request.append(std::to_string(body.size())).append("\r\n\r\n").append(body);
  if (Clock::now() - last_used_ > kMaxIdle) socket_.reset();
  if (!socket_.valid()) {
    if (auto connected = connect(); !connected) return connected.error();
  }
  bool retry = false;
  auto answer = exchange(request, limits, retry);
  if (!retry) return answer;
  if (auto connected = connect(); !connected) return connected.error();
  return exchange(request, limits, retry);
}

Result<HttpAnswer> HttpClient::exchange(const std::string& request, const Limits& limits,
                                        bool& retry) {
  // A server that is at its limit of connections answers without reading the request: then the
  // answer counts, and the failed write does not.
  const int sent = send_all(socket_.get(), request, Clock::now() + limits.answer, limits.stop_fd);
  Parser parser;
  parser.body_limit(limits.body_bytes);
  const error_code received = sent == ETIMEDOUT || sent == ECANCELED
                                  ? error_of(sent)
                                  : receive(socket_.get(), parser, limits);
  last_used_ = Clock::now();
  retry = received && sent == EPIPE;
  if (received || !parser.get().keep_alive()) socket_.reset();
  if (received) return explain(received, limits);
  return HttpAnswer{parser.get().result_int(), std::move(parser.get().body())};
}

}  // namespace profd
