// A blocking HTTP/1.1 client for a UNIX socket: one request at a time, a time limit for every step.
//
// The connection is kept between requests, and opened anew when it was idle for longer than the
// server keeps it. It is also opened anew when the server closed it before it took the request, as
// a server does that ends: with a socket that the service manager holds, a request survives a
// restart. Errors: kUnavailable when nothing listens on the socket, no answer arrives in time, or
// the connection ends before the answer is complete; kMalformed for an answer that is not HTTP or
// contradicts its own lengths; kTimeout when the request was abandoned.

#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

struct HttpAnswer {
  unsigned status = 0;
  std::string body;
};

class HttpClient {
 public:
  struct Limits {
    std::chrono::milliseconds answer{10'000};  // until the answer starts
    std::chrono::milliseconds stall{30'000};   // between two reads of it
    std::size_t body_bytes = std::size_t{256} << 20;
    int stop_fd = -1;  // the request is abandoned when it becomes readable; -1: none
  };

  // Where `preferred` is not empty, and a server there accepts this user, it takes its place.
  explicit HttpClient(std::string socket, std::string preferred = {})
      : path_(std::move(socket)), preferred_(std::move(preferred)) {}

  // `method` is "GET", "POST" or "DELETE".
  Result<HttpAnswer> request(std::string_view method, const std::string& target,
                             const std::string& body, const Limits& limits);

 private:
  Result<void> connect();
  Result<void> connect_to(const std::string& path);

  // Sends and receives once. `retry` says that the server can't have taken the request.
  Result<HttpAnswer> exchange(const std::string& request, const Limits& limits, bool& retry);

  std::string path_;
  std::string preferred_;
  UniqueFd socket_;
  std::chrono::steady_clock::time_point last_used_;
};

}  // namespace profd
