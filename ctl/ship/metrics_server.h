// Serves GET /metrics by TCP, for a Prometheus that can't scrape a UNIX socket.
//
// For anybody who reaches the port: the header of a request, the time of each step and the number
// of connections are bounded, and a connection has one request. Where there are too many, the one
// that has waited longest for its request is closed, so that slow clients keep nobody out.

#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "ctl/ship/ship_config.h"
#include "formats/base/result.h"

namespace profd {

struct MetricsLimits {
  std::size_t connections = 16;
  std::size_t header_bytes = std::size_t{8} << 10;
  std::chrono::milliseconds request{5'000};  // until the request is whole
  std::chrono::milliseconds send{10'000};    // until the client has read the answer
  std::chrono::milliseconds fresh{1'000};    // requests in this time get the same text
};

class MetricsServer {
 public:
  // Called on a thread of the server's own, for one request at a time.
  using MakeText = std::function<std::string()>;

  // kBusy: another program listens there.
  [[nodiscard]] static Result<std::unique_ptr<MetricsServer>> open(
      const MetricsListen& listen, const MakeText& make_text, const MetricsLimits& limits = {});
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;
  virtual ~MetricsServer() = default;

  // "http://127.0.0.1:9464/metrics"
  [[nodiscard]] virtual std::string url() const = 0;
  // Whether hosts other than this one can reach the address.
  [[nodiscard]] virtual bool is_public() const = 0;

  // Returns when `stop_fd` can be read. Answers that were not sent then are lost. An error, for
  // want of memory or descriptors: it serves no more.
  [[nodiscard]] virtual Result<void> run(int stop_fd) = 0;

 protected:
  MetricsServer() = default;
};

}  // namespace profd
