#include "ctl/ship/push_client.h"

#include <array>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>

#include "formats/base/errors.h"

namespace profd {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr auto kPushTuple = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kMaxAnswerBytes = std::size_t{4} << 10;  // what is read of it
constexpr std::uint32_t kMaxAnswerHeader = 16U << 10;

std::string text_of(beast::string_view text) { return {text.data(), text.size()}; }

std::string request_header(const PyroscopeEndpoint& endpoint, std::size_t body_bytes) {
  const HttpUrl& url = endpoint.address;
  const bool is_ipv6 = url.host.find(':') != std::string::npos;
  std::string header = "POST " + url.path + "/push.v1.PusherService/Push HTTP/1.1\r\nHost: ";
  header += is_ipv6 ? "[" + url.host + "]" : url.host;
  header += ":" + url.port;
  header += "\r\nUser-Agent: profctl\r\nContent-Type: application/proto\r\n";
  header += "Connect-Protocol-Version: 1\r\n";
  if (!endpoint.tenant.empty()) header += "X-Scope-OrgID: " + endpoint.tenant + "\r\n";
  return header + "Content-Length: " + std::to_string(body_bytes) + "\r\n\r\n";
}

class TcpPushClient final : public PushClient {
 public:
  TcpPushClient(PyroscopeEndpoint endpoint, const PushLimits& limits)
      : endpoint_(std::move(endpoint)), limits_(limits) {}

  Result<void> connect() override {
    if (stream_ && !is_fresh()) stream_.reset();
    if (stream_) return {};
    error_code error;
    run(reach(error));
    if (!error) return {};
    stream_.reset();
    return endpoint_error("could not connect to " + endpoint_.url, error);
  }

  PushReply push(const std::string& body) override {
    PushReply reply;
    if (auto connected = connect(); !connected) {
      reply.error = connected.error();
      return reply;
    }
    run(exchange(body, reply));
    last_used_ = Clock::now();
    return reply;
  }

 private:
  void run(asio::awaitable<void> flow) {
    io_.restart();
    asio::co_spawn(io_, std::move(flow), [](const std::exception_ptr& bug) {
      if (bug) std::rethrow_exception(bug);
    });
    io_.run();
  }

  // An endpoint closes idle connections: then the socket is readable.
  [[nodiscard]] bool is_fresh() {
    if (Clock::now() - last_used_ > limits_.idle) return false;
    error_code error;
    stream_->socket().non_blocking(true, error);
    char byte = 0;
    (void)stream_->socket().receive(asio::buffer(&byte, 1), tcp::socket::message_peek, error);
    return error == asio::error::would_block;
  }

  asio::awaitable<void> reach(error_code& error) {
    tcp::resolver resolver(io_);
    auto resolving =
        resolver.async_resolve(endpoint_.address.host, endpoint_.address.port, kPushTuple);
    auto [resolve_error, found] = co_await std::move(resolving);
    error = resolve_error;
    if (error) co_return;
    stream_.emplace(io_);
    stream_->expires_after(limits_.connect);
    auto connecting = stream_->async_connect(found, kPushTuple);
    auto [connect_error, address] = co_await std::move(connecting);
    error = connect_error;
    if (error) co_return;
    stream_->socket().set_option(tcp::no_delay(true), error);
    error = {};
    last_used_ = Clock::now();
  }

  asio::awaitable<void> exchange(const std::string& body, PushReply& reply) {
    const std::string header = request_header(endpoint_, body.size());
    const std::array<asio::const_buffer, 2> parts{asio::buffer(header), asio::buffer(body)};
    stream_->expires_after(limits_.send);
    auto writing = asio::async_write(*stream_, parts, kPushTuple);
    const auto [write_error, sent] = co_await std::move(writing);
    const bool is_whole = sent == header.size() + body.size();
    reply.reached = is_whole ? PushReply::Reached::kNoAnswer : PushReply::Reached::kNotSent;
    // An endpoint that refuses a body may answer before it has the whole.
    auto reading = read_answer(reply, write_error);
    co_await std::move(reading);
  }

  asio::awaitable<void> read_answer(PushReply& reply, error_code write_error) {
    http::response_parser<http::buffer_body> parser;
    parser.header_limit(kMaxAnswerHeader);
    parser.body_limit(boost::none);
    beast::flat_buffer buffer;
    stream_->expires_after(write_error ? std::chrono::milliseconds(1000) : limits_.answer);
    auto reading = http::async_read_header(*stream_, buffer, parser, kPushTuple);
    const auto [error, bytes] = co_await std::move(reading);
    if (error) {
      reply.error =
          endpoint_error("no answer from " + endpoint_.url, write_error ? write_error : error);
      stream_.reset();
      co_return;
    }
    const auto& answer = parser.get();
    reply.reached = PushReply::Reached::kAnswered;
    reply.status = answer.result_int();
    reply.content_type = text_of(answer[http::field::content_type]);
    reply.retry_after = text_of(answer[http::field::retry_after]);
    auto reading_body = read_body(parser, buffer, reply.body);
    co_await std::move(reading_body);
    if (write_error || !parser.is_done() || !answer.keep_alive()) stream_.reset();
  }

  // Its beginning: what follows is of no use, however long it is.
  asio::awaitable<void> read_body(http::response_parser<http::buffer_body>& parser,
                                  beast::flat_buffer& buffer, std::string& body) {
    std::array<char, kMaxAnswerBytes> bytes{};
    auto& space = parser.get().body();
    space.data = bytes.data();
    space.size = bytes.size();
    while (!parser.is_done() && space.size > 0) {
      auto reading = http::async_read_some(*stream_, buffer, parser, kPushTuple);
      const auto [error, count] = co_await std::move(reading);
      if (error) break;
    }
    body.assign(bytes.data(), bytes.size() - space.size);
  }

  [[nodiscard]] static Error endpoint_error(const std::string& what, const error_code& error) {
    if (error == beast::error::timeout) {
      return fail(ErrorCode::kTimeout, what + ": it took too long");
    }
    if (error == http::error::end_of_stream) {
      return fail(ErrorCode::kUnavailable, what + ": it closed the connection");
    }
    return fail(ErrorCode::kUnavailable, what + ": " + error.message());
  }

  PyroscopeEndpoint endpoint_;
  PushLimits limits_;
  asio::io_context io_;
  std::optional<beast::tcp_stream> stream_;
  Clock::time_point last_used_;
};

}  // namespace

std::unique_ptr<PushClient> make_push_client(const PyroscopeEndpoint& endpoint,
                                             const PushLimits& limits) {
  return std::make_unique<TcpPushClient>(endpoint, limits);
}

}  // namespace profd
