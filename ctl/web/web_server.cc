#include "ctl/web/web_server.h"

#include <algorithm>
#include <array>
#include <exception>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/stream_traits.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>

#include "ctl/listen/tcp_listener.h"
#include "ctl/web/web_access.h"
#include "ctl/web/web_tls.h"
#include "formats/base/errors.h"

namespace profd {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace ssl = boost::asio::ssl;
using asio::ip::tcp;
using boost::system::error_code;

constexpr auto kAsTuple = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kSentAtOnce = std::size_t{64} << 10;
constexpr unsigned kPortsTried = 100;
constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' "
    "data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

std::string_view view_of(beast::string_view text) { return {text.data(), text.size()}; }
beast::string_view beast_view(std::string_view text) { return {text.data(), text.size()}; }

std::string text_of_header(const WebReply& reply, bool keep_alive) {
  http::response<http::empty_body> header;
  header.result(reply.status);
  header.keep_alive(keep_alive);
  header.set(http::field::content_type, reply.type);
  header.set(http::field::cache_control, "no-store");
  header.set("Content-Security-Policy", beast_view(kPolicy));
  header.set("X-Content-Type-Options", "nosniff");
  header.set("Referrer-Policy", "no-referrer");
  header.set("Cross-Origin-Resource-Policy", "same-origin");
  header.set("Cross-Origin-Opener-Policy", "same-origin");
  if (!reply.file_name.empty()) {
    header.set("Content-Disposition", "attachment; filename=\"" + reply.file_name + "\"");
  }
  if (reply.status == 405) header.set(http::field::allow, "GET, HEAD");
  header.content_length(reply.body.size());
  std::ostringstream text;
  text << header.base();
  return text.str();
}

WebReply plain_reply(unsigned status, std::string text) {
  return {.status = status, .type = "text/plain; charset=utf-8", .body = std::move(text) + "\n"};
}

bool is_public(std::string_view path) { return path.ends_with(".js") || path.ends_with(".css"); }

// On the worker. An exception (no memory, a bug) is an answer too.
asio::awaitable<WebReply> work_on(std::function<WebReply()> job) {
  try {
    co_return job();
  } catch (const std::exception& problem) {
    co_return reply_of(fail(ErrorCode::kInternal, problem.what()));
  }
}

// "[::1]:8300"
std::string text_of_endpoint(const tcp::endpoint& endpoint) {
  std::ostringstream text;
  text << endpoint;
  return text.str();
}

// "[::1]" of "[::1]:8300", and of "[::1]": a browser leaves out the usual port.
std::string_view without_port(std::string_view host) {
  const std::size_t colon = host.rfind(':');
  if (colon == std::string_view::npos || colon + 1 == host.size()) return host;
  const std::string_view port = host.substr(colon + 1);
  const bool is_port = port.find_first_not_of("0123456789") == std::string_view::npos;
  return is_port ? host.substr(0, colon) : host;
}

bool is_same_host(std::string_view host, std::string_view other) {
  return beast::iequals(beast_view(host), beast_view(other));
}

// The hosts of requests for a server that listens there: as clients write its address, and what its
// certificate is for.
WebAccess::IsOwnHost own_hosts(const tcp::endpoint& endpoint, std::shared_ptr<WebTls> tls) {
  const std::string port = ":" + std::to_string(endpoint.port());
  return [tls = std::move(tls), address = text_of_endpoint(endpoint), port,
          is_loopback = endpoint.address().is_loopback()](std::string_view host) {
    if (is_same_host(host, address) || is_same_host(host, "localhost" + port)) return true;
    if (is_loopback) {
      const std::string_view name = without_port(host);
      const auto is_name = [name](std::string_view own) { return is_same_host(name, own); };
      const std::array own{without_port(address), std::string_view("localhost"),
                           std::string_view("127.0.0.1"), std::string_view("[::1]")};
      if (std::ranges::any_of(own, is_name)) return true;
    }
    const bool has_port = host.ends_with(port);
    if (has_port) host.remove_suffix(port.size());
    return tls != nullptr && (has_port || port == ":443") && tls->is_for(host);
  };
}

// For the answer to a request for another host.
std::string describe_hosts(const tcp::endpoint& endpoint) {
  if (!endpoint.address().is_loopback()) {
    return "a name of its certificate, with port " + std::to_string(endpoint.port()) +
           ". Open the address that profctl web has printed";
  }
  return "127.0.0.1 or localhost, with any port. Open the address that profctl web has printed; "
         "with ssh -L 9000:" +
         text_of_endpoint(endpoint) + " HOST, replace its port by 9000";
}

class TcpWebServer final : public WebServer {
 public:
  TcpWebServer(const tcp::endpoint& address, Answer answer, std::shared_ptr<WebTls> tls,
               const WebLimits& limits)
      : listener_(address, limits.connections),
        tls_(std::move(tls)),
        access_(WebAccess::make_token(), tls_ ? "https" : "http",
                own_hosts(listener_.address(), tls_), describe_hosts(listener_.address())),
        url_(make_url()),
        answer_(std::move(answer)),
        limits_(limits) {}

  ~TcpWebServer() override {
    pool_.stop();
    pool_.join();
  }

  [[nodiscard]] std::string url() const override { return url_; }

  [[nodiscard]] std::uint16_t port() const override { return listener_.address().port(); }

  void run(int stop_fd) override {
    listener_.run(stop_fd, [this](tcp::socket socket) { return serve(std::move(socket)); });
  }

 private:
  [[nodiscard]] std::string make_url() const {
    const tcp::endpoint endpoint = listener_.address();
    std::ostringstream text;
    text << access_.scheme() << "://";
    const std::string name = tls_ ? tls_->name() : "";
    if (name.empty()) {
      text << endpoint;
    } else {
      text << name << ":" << endpoint.port();
    }
    text << "/?token=" << access_.token();
    return text.str();
  }

  asio::awaitable<void> serve(tcp::socket socket) {
    if (!tls_) {
      beast::tcp_stream stream(std::move(socket));
      auto talking = talk(stream);
      co_await std::move(talking);
      co_return;
    }
    ssl::stream<beast::tcp_stream> stream(beast::tcp_stream(std::move(socket)), tls_->context());
    stream.next_layer().expires_after(limits_.request);
    auto handshaking = stream.async_handshake(ssl::stream_base::server, kAsTuple);
    const auto [error] = co_await std::move(handshaking);
    if (error) co_return;
    auto talking = talk(stream);
    co_await std::move(talking);
  }

  template <class Stream>
  asio::awaitable<void> talk(Stream& stream) {
    beast::flat_buffer buffer(limits_.header_bytes);
    for (bool is_open = true; is_open;) {
      auto exchanging = exchange(stream, buffer);
      is_open = co_await std::move(exchanging);
    }
    error_code ignored;
    beast::get_lowest_layer(stream).socket().shutdown(tcp::socket::shutdown_both, ignored);
  }

  // False: the connection ends.
  template <class Stream>
  asio::awaitable<bool> exchange(Stream& stream, beast::flat_buffer& buffer) {
    http::request_parser<http::empty_body> parser;
    parser.header_limit(static_cast<std::uint32_t>(limits_.header_bytes));
    beast::get_lowest_layer(stream).expires_after(limits_.request);
    auto reading = http::async_read_header(stream, buffer, parser, kAsTuple);
    const auto [error, bytes] = co_await std::move(reading);
    if (error) {
      const auto refusal = refusal_of(error);
      if (!refusal) co_return false;
      auto sending = send(stream, *refusal, false, false);
      co_await std::move(sending);
      co_return false;
    }
    const auto& head = parser.get();
    auto answering = answer(head);
    WebReply reply = co_await std::move(answering);
    // A body, which no request needs, is not read: what follows would be no request.
    const bool has_body = head.has_content_length() || head.chunked();
    const bool keep_alive = head.keep_alive() && !has_body && reply.status != 405;
    auto sending = send(stream, std::move(reply), keep_alive, head.method() == http::verb::head);
    const bool is_sent = co_await std::move(sending);
    co_return is_sent&& keep_alive;
  }

  // The answer to a request that could not be read; none for a client that has disconnected.
  static std::optional<WebReply> refusal_of(const error_code& error) {
    if (error == http::error::header_limit || error == http::error::buffer_overflow) {
      return plain_reply(431, "the header of the request is too large");
    }
    const bool is_http = error.category() == make_error_code(http::error::bad_method).category();
    if (!is_http || error == http::error::end_of_stream || error == http::error::partial_message) {
      return std::nullopt;
    }
    return plain_reply(400, "this is not a request of HTTP: " + error.message());
  }

  asio::awaitable<WebReply> answer(const http::request_header<>& head) {
    const WebHead shown{.method = view_of(head.method_string()),
                        .host = view_of(head[http::field::host]),
                        .origin = view_of(head[http::field::origin]),
                        .fetch_site = view_of(head["Sec-Fetch-Site"]),
                        .fetch_mode = view_of(head["Sec-Fetch-Mode"]),
                        .fetch_dest = view_of(head["Sec-Fetch-Dest"])};
    if (const auto refusal = access_.refuse(shown)) {
      co_return plain_reply(refusal->status, refusal->why);
    }
    auto request = WebRequest::parse(view_of(head.target()));
    if (!request) co_return reply_of(request.error());
    if (!is_public(request->path()) && !access_.has_token(request->field("token"))) {
      co_return plain_reply(403, "the address needs the token that profctl web has printed");
    }
    std::function<WebReply()> job = [this, asked = std::move(*request)] { return answer_(asked); };
    auto working = on_worker(std::move(job));
    WebReply reply = co_await std::move(working);
    while (reply.then) {
      asio::steady_timer timer(listener_.context(), reply.wait);
      auto waiting = timer.async_wait(kAsTuple);
      co_await std::move(waiting);
      auto next = on_worker(std::move(reply.then));
      reply = co_await std::move(next);
    }
    co_return reply;
  }

  asio::awaitable<WebReply> on_worker(std::function<WebReply()> job) {
    auto spawned =
        asio::co_spawn(pool_.get_executor(), work_on(std::move(job)), asio::use_awaitable);
    co_return co_await std::move(spawned);
  }

  template <class Stream>
  asio::awaitable<bool> send(Stream& stream, WebReply reply, bool keep_alive, bool is_head) {
    std::string header = text_of_header(reply, keep_alive);
    std::string_view head = header;
    std::string_view body = is_head ? std::string_view() : std::string_view(reply.body);
    while (!head.empty() || !body.empty()) {
      const std::string_view part = body.substr(0, kSentAtOnce);
      const std::array<asio::const_buffer, 2> chunk = {asio::buffer(head), asio::buffer(part)};
      beast::get_lowest_layer(stream).expires_after(limits_.stall);
      auto writing = asio::async_write(stream, chunk, kAsTuple);
      const auto [error, bytes] = co_await std::move(writing);
      if (error) co_return false;
      head = {};
      body.remove_prefix(part.size());
    }
    co_return true;
  }

  TcpListener listener_;
  std::shared_ptr<WebTls> tls_;  // null: HTTP without TLS
  WebAccess access_;
  std::string url_;
  Answer answer_;
  WebLimits limits_;
  asio::thread_pool pool_{1};  // ends before what its jobs use
};

}  // namespace

Result<std::unique_ptr<WebServer>> WebServer::open(const std::string& address, std::uint16_t port,
                                                   const Answer& answer,
                                                   const std::shared_ptr<WebTls>& tls,
                                                   const WebLimits& limits) {
  error_code error;
  const auto ip = asio::ip::make_address(address, error);
  if (error) {
    return invalid_argument("'" + address.substr(0, 64) + "' is no IP address",
                            "give one of this host: --listen 127.0.0.1");
  }
  if (!ip.is_loopback() && tls == nullptr) {
    return invalid_argument(
        "other hosts can reach " + address,
        "give --tls-cert and --tls-key; or listen on 127.0.0.1, and forward the port: ssh -L "
        "PORT:127.0.0.1:PORT HOST");
  }
  const unsigned tries = port == 0 ? 1 : std::min(kPortsTried, 65536U - port);
  for (unsigned i = 0; i < tries; ++i) {
    try {
      const tcp::endpoint endpoint(ip, static_cast<std::uint16_t>(port + i));
      return std::unique_ptr<WebServer>(
          std::make_unique<TcpWebServer>(endpoint, answer, tls, limits));
    } catch (const boost::system::system_error& failure) {
      error = failure.code();
      if (error != asio::error::address_in_use) break;
    }
  }
  return fail(
      ErrorCode::kIo,
      "could not listen on " + address + ", port " + std::to_string(port) + ": " + error.message(),
      "choose another port: --port 9000; --port 0 is any that is free");
}

}  // namespace profd
