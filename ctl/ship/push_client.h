// Sends push requests to one endpoint: HTTP/1.1 over TCP by Boost.Beast, which the source file
// alone includes.
//
// Blocking, one request at a time, with a time limit for each step and a bounded answer. The
// connection is kept between requests, but not for long: a request that meets the end of an idle
// connection may or may not have arrived.

#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "ctl/ship/push_outcome.h"
#include "ctl/ship/ship_config.h"
#include "formats/base/result.h"

namespace profd {

class PushClient {
 public:
  PushClient() = default;
  PushClient(const PushClient&) = delete;
  PushClient& operator=(const PushClient&) = delete;
  virtual ~PushClient() = default;

  // So that the endpoint can be reached. Before it, nothing of a request can arrive.
  virtual Result<void> connect() = 0;
  // `body` is a push.v1.PushRequest.
  virtual PushReply push(const std::string& body) = 0;
};

struct PushLimits {
  std::chrono::milliseconds connect{10'000};
  std::chrono::milliseconds send{30'000};
  std::chrono::milliseconds answer{30'000};  // until it is whole
  std::chrono::milliseconds idle{15'000};    // of a connection that is used again
};

[[nodiscard]] std::unique_ptr<PushClient> make_push_client(const PyroscopeEndpoint& endpoint,
                                                           const PushLimits& limits = {});

}  // namespace profd
