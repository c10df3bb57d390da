// The HTTP server behind `profctl web`: reads requests within limits, refuses those of others, and
// answers on a thread of its own.
//
// The thread of run() owns all connections; `answer` is only ever called on one worker thread, so
// that what it uses needs no lock. Errors of a connection end that connection.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ctl/web/web_reply.h"
#include "ctl/web/web_request.h"
#include "formats/base/result.h"

namespace profd {

class WebTls;

struct WebLimits {
  std::size_t connections = 64;
  std::size_t header_bytes = std::size_t{16} << 10;
  std::chrono::milliseconds request{10'000};  // until a whole request has arrived
  std::chrono::milliseconds stall{30'000};    // until the client has read 64 KiB of an answer
};

class WebServer {
 public:
  using Answer = std::function<WebReply(const WebRequest& request)>;

  // Where `port` is taken, one of the next hundred; 0 is any. Without `tls`, only addresses of this
  // host itself: kInvalidArgument. Paths that end in .js or .css need no token, since what is there
  // is no secret.
  [[nodiscard]] static Result<std::unique_ptr<WebServer>> open(
      const std::string& address, std::uint16_t port, const Answer& answer,
      const std::shared_ptr<WebTls>& tls = nullptr, const WebLimits& limits = {});
  WebServer(const WebServer&) = delete;
  WebServer& operator=(const WebServer&) = delete;
  virtual ~WebServer() = default;

  // "http://127.0.0.1:8300/?token=...", with TLS the name of the certificate
  [[nodiscard]] virtual std::string url() const = 0;

  // Where it listens: with the port that was free.
  [[nodiscard]] virtual std::uint16_t port() const = 0;

  // Returns when `stop_fd` can be read. Answers that were not sent then are lost.
  virtual void run(int stop_fd) = 0;

 protected:
  WebServer() = default;
};

}  // namespace profd
