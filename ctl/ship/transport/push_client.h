// Sends requests to one endpoint: HTTP/1.1 over TCP or TLS, straight or through the proxy that the
// environment names.
//
// Blocking, one request at a time, with a time limit for each step and a bounded answer. The
// connection is kept between requests, but not for long: a request that meets the end of an idle
// connection may or may not have arrived. Redirects are answers: none is followed.

#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ctl/ship/transport/host_lookup.h"
#include "ctl/ship/transport/http_endpoint.h"
#include "ctl/ship/transport/http_proxy.h"
#include "ctl/ship/transport/push_outcome.h"
#include "formats/base/result.h"

namespace profd {

// A POST. What all endpoints need (Host, Authorization, Content-Length) is not in it.
struct PushMessage {
  std::string path;  // begins with "/"; behind that of the endpoint's url
  std::string content_type;
  std::vector<std::pair<std::string, std::string>> headers;  // further ones, of visible ASCII
  std::string body;
};

class PushClient {
 public:
  PushClient() = default;
  PushClient(const PushClient&) = delete;
  PushClient& operator=(const PushClient&) = delete;
  virtual ~PushClient() = default;

  // So that the endpoint can be reached, and the files of its settings can be read. Before it,
  // nothing of a request can arrive.
  virtual Result<void> connect() = 0;
  virtual PushReply push(const PushMessage& message) = 0;
};

struct PushLimits {
  std::chrono::milliseconds connect{10'000};  // with the lookup, a proxy and TLS
  std::chrono::milliseconds send{30'000};
  std::chrono::milliseconds answer{30'000};  // until it is whole
  std::chrono::milliseconds idle{15'000};    // of a connection that is used again
};

// What the client has of its process.
struct PushSurroundings {
  PushLimits limits;
  int stop_fd = -1;  // readable: connect() ends at once, with an error; borrowed
  HostLookup lookup = look_up_host;
  Environment environment = process_environment;
};

[[nodiscard]] std::unique_ptr<PushClient> make_push_client(const HttpEndpoint& endpoint,
                                                           PushSurroundings surroundings = {});

}  // namespace profd
