#include "ctl/ship/metrics_server.h"

#include <exception>
#include <list>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>

#include "ctl/listen/tcp_listener.h"
#include "formats/api/metrics_text.h"
#include "formats/base/errors.h"

namespace profd {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr auto kMetricsTuple = asio::as_tuple(asio::use_awaitable);
constexpr std::string_view kMetricsPath = "/metrics";

// A whole answer, after which the connection ends.
std::string answer_text(std::string_view status, std::string_view type, std::string_view body) {
  std::string text("HTTP/1.1 ");
  text.append(status).append("\r\nContent-Type: ").append(type);
  if (status.starts_with("405")) text.append("\r\nAllow: GET");
  text.append(
      "\r\nX-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\nConnection: close");
  text.append("\r\nContent-Length: ").append(std::to_string(body.size())).append("\r\n\r\n");
  return text.append(body);
}

std::string plain_answer(std::string_view status, std::string_view body) {
  return answer_text(status, "text/plain; charset=utf-8", body);
}

// None: GET /metrics.
std::optional<std::string> refuse(const http::request_header<>& head) {
  const beast::string_view target = head.target();
  const std::string_view path =
      std::string_view(target.data(), target.size()).substr(0, target.find('?'));
  if (path != kMetricsPath) return plain_answer("404 Not Found", "only /metrics is here\n");
  if (head.method() != http::verb::get) {
    return plain_answer("405 Method Not Allowed", "only GET is allowed\n");
  }
  return std::nullopt;
}

// The answer to a request that could not be read; none for a client that is away or too slow.
std::optional<std::string> refuse_header(const error_code& error) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return plain_answer("431 Request Header Fields Too Large", "the header is too large\n");
  }
  const bool is_http = error.category() == make_error_code(http::error::bad_method).category();
  if (!is_http || error == http::error::end_of_stream || error == http::error::partial_message) {
    return std::nullopt;
  }
  return plain_answer("400 Bad Request", "this is not a request of HTTP\n");
}

class TcpMetricsServer final : public MetricsServer {
 public:
  TcpMetricsServer(const tcp::endpoint& address, MakeText make_text, const MetricsLimits& limits)
      : listener_(address, limits.connections), make_text_(std::move(make_text)), limits_(limits) {}

  ~TcpMetricsServer() override {
    pool_.stop();
    pool_.join();
  }

  [[nodiscard]] std::string url() const override {
    std::ostringstream text;
    text << "http://" << listener_.address() << kMetricsPath;
    return text.str();
  }

  [[nodiscard]] bool is_public() const override {
    return !listener_.address().address().is_loopback();
  }

  [[nodiscard]] Result<void> run(int stop_fd) override {
    try {
      listener_.run(
          stop_fd, [this](tcp::socket socket) { return serve(std::move(socket)); },
          [this] { return close_oldest(); });
    } catch (const std::exception& problem) {
      return fail(ErrorCode::kIo, "the server ended: " + std::string(problem.what()));
    }
    return {};
  }

 private:
  // False: all connections have whole requests, which are answered soon.
  bool close_oldest() {
    if (reading_.empty()) return false;
    reading_.front()->close();
    reading_.pop_front();
    return true;
  }

  asio::awaitable<void> serve(tcp::socket socket) {
    beast::tcp_stream stream(std::move(socket));
    reading_.push_back(&stream);
    beast::flat_buffer buffer(limits_.header_bytes);
    http::request_parser<http::empty_body> parser;
    parser.header_limit(static_cast<std::uint32_t>(limits_.header_bytes));
    stream.expires_after(limits_.request);
    auto reading = http::async_read_header(stream, buffer, parser, kMetricsTuple);
    const auto [error, bytes] = co_await std::move(reading);
    std::erase(reading_, &stream);
    std::optional<std::string> answer = error ? refuse_header(error) : refuse(parser.get());
    if (error && !answer) co_return;
    if (!answer) {
      auto making = make_answer();
      answer = co_await std::move(making);
    }
    stream.expires_after(limits_.send);
    auto writing = asio::async_write(stream, asio::buffer(*answer), kMetricsTuple);
    const auto [write_error, sent] = co_await std::move(writing);
    error_code ignored;
    if (!write_error) stream.socket().shutdown(tcp::socket::shutdown_both, ignored);
  }

  asio::awaitable<std::string> make_answer() {
    auto spawned = asio::co_spawn(pool_.get_executor(), make_on_worker(), asio::use_awaitable);
    co_return co_await std::move(spawned);
  }

  // On the thread of the pool, which owns the text.
  asio::awaitable<std::string> make_on_worker() {
    const auto now = std::chrono::steady_clock::now();
    if (!made_at_ || now - *made_at_ >= limits_.fresh) {
      text_ = answer_text("200 OK", kMetricsContentType, make_text_());
      made_at_ = std::chrono::steady_clock::now();
    }
    co_return text_;
  }

  std::list<beast::tcp_stream*> reading_;  // connections without a whole request, the oldest first
  TcpListener listener_;
  MakeText make_text_;
  MetricsLimits limits_;
  std::string text_;  // the last answer
  std::optional<std::chrono::steady_clock::time_point> made_at_;
  asio::thread_pool pool_{1};  // ends before what its jobs use
};

}  // namespace

Result<std::unique_ptr<MetricsServer>> MetricsServer::open(const MetricsListen& listen,
                                                           const MakeText& make_text,
                                                           const MetricsLimits& limits) {
  error_code error;
  const auto address = asio::ip::make_address(listen.address, error);
  if (error) return invalid_argument(listen.address + " is no address");
  try {
    const tcp::endpoint endpoint(address, listen.port);
    return std::unique_ptr<MetricsServer>(
        std::make_unique<TcpMetricsServer>(endpoint, make_text, limits));
  } catch (const boost::system::system_error& failure) {
    error = failure.code();
  }
  return fail(error == asio::error::address_in_use ? ErrorCode::kBusy : ErrorCode::kIo,
              "could not listen on " + listen.address + ", port " + std::to_string(listen.port) +
                  ": " + error.message(),
              "set another address or port: listen of [metrics] in the configuration");
}

}  // namespace profd
