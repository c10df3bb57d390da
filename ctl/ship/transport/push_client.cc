#include "ctl/ship/transport/push_client.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "ctl/ship/transport/endpoint_answer.h"
#include "ctl/ship/transport/host_lookup.h"
#include "ctl/ship/transport/http_auth.h"
#include "ctl/ship/transport/net_stream.h"
#include "ctl/ship/transport/net_wait.h"
#include "ctl/ship/transport/tls_session.h"
#include "formats/base/errors.h"

namespace profd {
namespace {

// For the answer of an endpoint that has refused a body before it had the whole.
constexpr std::chrono::seconds kEarlyAnswerTime{1};

std::string header_line(std::string_view name, std::string_view value) {
  return std::string(name).append(": ").append(value).append("\r\n");
}

Error with_context(const std::string& what, Error error) {
  error.message = what + ": " + error.message;
  return error;
}

class NetPushClient final : public PushClient {
 public:
  NetPushClient(HttpEndpoint endpoint, PushSurroundings surroundings)
      : endpoint_(std::move(endpoint)),
        limits_(surroundings.limits),
        stop_fd_(surroundings.stop_fd),
        lookup_(std::move(surroundings.lookup)),
        proxy_(find_proxy(endpoint_.address, surroundings.environment)) {}

  Result<void> connect() override {
    auto authorization = read_authorization(endpoint_.auth);
    if (!authorization) return authorization.error();
    authorization_ = std::move(*authorization);
    const auto usable = is_usable();
    if (!usable) {
      stream_.reset();
      return connect_error(usable.error());
    }
    if (*usable) return {};
    stream_.reset();
    const auto reached = reach();
    if (!reached) return connect_error(reached.error());
    return {};
  }

  PushReply push(const PushMessage& message) override {
    PushReply reply;
    if (auto connected = connect(); !connected) {
      reply.error = connected.error();
      return reply;
    }
    exchange(request_of(message), reply);
    last_used_ = Clock::now();
    return reply;
  }

 private:
  using Clock = std::chrono::steady_clock;

  // Whether there is a connection that can take a request: an endpoint closes idle ones. An error:
  // the endpoint has refused this one, before a request.
  Result<bool> is_usable() {
    if (!stream_ || Clock::now() - last_used_ > limits_.idle) return false;
    const auto input = stream_->has_input();
    if (!input && input.error().code == ErrorCode::kPermissionDenied) return input.error();
    if (!input) return false;
    if (!*input) return true;
    if (has_requests_) return false;
    return malformed_greeting();
  }

  static Error malformed_greeting() {
    return fail(ErrorCode::kMalformed, "it sends bytes before it has a request",
                "check the url: it is no server of HTTP");
  }

  Result<void> reach() {
    if (!proxy_) return proxy_.error();
    const WaitLimit limit{.until = Clock::now() + limits_.connect, .stop_fd = stop_fd_};
    if (endpoint_.address.is_https) {
      if (auto loaded = load_tls(); !loaded) return loaded.error();
    }
    const HttpUrl& first = *proxy_ ? (*proxy_)->address : endpoint_.address;
    const auto addresses = lookup_.find(first.host, limit);
    if (!addresses) return addresses.error();
    auto stream = NetStream::open(*addresses, first.port, limit);
    if (!stream) return stream.error();
    if (endpoint_.address.is_https) {
      if (auto secured = secure(*stream, limit); !secured) return secured.error();
    }
    stream_.emplace(std::move(*stream));
    has_requests_ = false;
    last_used_ = Clock::now();
    return {};
  }

  // The files may have changed, too.
  Result<void> load_tls() {
    if (tls_ && tls_->is_current()) return {};
    tls_.reset();
    auto tls = TlsContext::open(endpoint_.tls);
    if (!tls) return tls.error();
    tls_.emplace(std::move(*tls));
    return {};
  }

  Result<void> secure(NetStream& stream, const WaitLimit& limit) const {
    if (*proxy_) {
      if (auto opened = open_tunnel(stream, limit); !opened) return opened;
    }
    return stream.start_tls(*tls_, endpoint_.address.host, limit);
  }

  Result<void> open_tunnel(NetStream& stream, const WaitLimit& limit) const {
    const std::string place = authority_of(endpoint_.address);
    const std::string request = "CONNECT " + place + " HTTP/1.1\r\n" + header_line("Host", place) +
                                header_line("User-Agent", "profctl") + proxy_header() + "\r\n";
    std::size_t sent = 0;
    if (auto written = stream.send(request, limit, sent); !written) return written;
    const auto answer = read_endpoint_answer(stream, limit, AnsweredRequest::kConnect);
    if (!answer) return answer.error();
    const std::string status = std::to_string(answer->status);
    if (answer->status == 407) {
      return fail(ErrorCode::kPermissionDenied, "the proxy refuses the user (status 407)",
                  "give the user and password of the proxy in https_proxy");
    }
    if (answer->status / 100 != 2) {
      return fail(ErrorCode::kUnavailable,
                  "the proxy does not connect to it (status " + status + ")",
                  "allow it there, or name the host in no_proxy");
    }
    return {};
  }

  [[nodiscard]] std::string proxy_header() const {
    const std::string& authorization = (*proxy_)->authorization;
    return authorization.empty() ? "" : header_line("Proxy-Authorization", authorization);
  }

  [[nodiscard]] std::string request_of(const PushMessage& message) const {
    const HttpUrl& url = endpoint_.address;
    const bool is_absolute = *proxy_ && !url.is_https;
    std::string request = "POST ";
    if (is_absolute) request += "http://" + host_field_of(url);
    request += url.path + message.path + " HTTP/1.1\r\n";
    request += header_line("Host", host_field_of(url)) + header_line("User-Agent", "profctl") +
               header_line("Content-Type", message.content_type);
    if (is_absolute) request += proxy_header();
    if (!authorization_.empty()) request += header_line("Authorization", authorization_);
    for (const auto& [name, value] : message.headers) request += header_line(name, value);
    request += header_line("Content-Length", std::to_string(message.body.size())) + "\r\n";
    return request + message.body;
  }

  void exchange(const std::string& request, PushReply& reply) {
    const bool is_first = !std::exchange(has_requests_, true);
    const WaitLimit sending{.until = Clock::now() + limits_.send, .stop_fd = -1};
    std::size_t sent = 0;
    const auto written = stream_->send(request, sending, sent);
    const bool is_whole = sent == request.size();
    if (is_whole) reply.reached = PushReply::Reached::kNoAnswer;
    // An endpoint that refuses a body may answer before it has the whole.
    const Clock::duration allowed = written ? Clock::duration(limits_.answer) : kEarlyAnswerTime;
    const WaitLimit reading{.until = Clock::now() + allowed, .stop_fd = -1};
    const auto answer = read_endpoint_answer(*stream_, reading, AnsweredRequest::kPost);
    const bool is_refused = !answer && is_proof(answer.error(), is_first);
    if (is_refused) reply.reached = PushReply::Reached::kNotSent;
    if (!answer) {
      reply.error = no_answer(is_whole || is_refused ? answer.error() : written.error());
    } else if (!is_whole && answer->status / 100 == 2) {
      reply.error = no_answer(written.error());  // it can't have stored what it did not get
    } else {
      take_answer(*answer, reply);
    }
    if (!answer || !written || !answer->is_reusable) stream_.reset();
  }

  // The other side has understood nothing of the request.
  static bool is_proof(const Error& error, bool is_first) {
    return is_first &&
           (error.code == ErrorCode::kUnsupported || error.code == ErrorCode::kPermissionDenied);
  }

  void take_answer(const EndpointAnswer& answer, PushReply& reply) const {
    reply.reached = PushReply::Reached::kAnswered;
    reply.status = answer.status;
    reply.content_type = answer.content_type;
    reply.retry_after = answer.retry_after;
    reply.location = without_own_secrets(answer.location);
    reply.body = without_own_secrets(answer.body);
  }

  // An endpoint or a proxy may send back what it got. Its answer is logged, and any user can read
  // the files of ship_status.h.
  [[nodiscard]] std::string without_own_secrets(const std::string& text) const {
    std::string safe = without_secrets(text, authorization_);
    if (!*proxy_) return safe;
    return without_secrets(std::move(safe), (*proxy_)->authorization);
  }

  [[nodiscard]] Error no_answer(const Error& error) const {
    return with_context("no answer from " + endpoint_.url, error);
  }

  [[nodiscard]] Error connect_error(const Error& error) const {
    std::string what = "could not connect to " + endpoint_.url;
    if (proxy_ && *proxy_) what += " by the proxy " + authority_of((*proxy_)->address);
    return with_context(what, error);
  }

  HttpEndpoint endpoint_;
  PushLimits limits_;
  int stop_fd_;
  BoundedLookup lookup_;
  Result<std::optional<HttpProxy>> proxy_;
  std::optional<TlsContext> tls_;
  std::optional<NetStream> stream_;
  std::string authorization_;
  bool has_requests_ = false;  // the stream has had one
  Clock::time_point last_used_;
};

}  // namespace

std::unique_ptr<PushClient> make_push_client(const HttpEndpoint& endpoint,
                                             PushSurroundings surroundings) {
  return std::make_unique<NetPushClient>(endpoint, std::move(surroundings));
}

}  // namespace profd
