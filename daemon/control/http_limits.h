// What one connection to the control socket may take.

#pragma once

#include <chrono>
#include <cstddef>

namespace profd {

struct HttpLimits {
  std::size_t header_bytes = std::size_t{8} << 10;
  std::size_t body_bytes = std::size_t{64} << 10;
  std::chrono::milliseconds request{10'000};  // until a whole request has arrived
  std::chrono::milliseconds stall{10'000};    // until the client has read 64 KiB of an answer
};

}  // namespace profd
