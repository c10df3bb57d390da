// Waits for a socket, for no longer than a limit.

#pragma once

#include <chrono>

#include "formats/base/result.h"

namespace profd {

struct WaitLimit {
  std::chrono::steady_clock::time_point until;
  int stop_fd = -1;  // readable: the program is to end; borrowed
};

// Until `fd` is ready for `events` of poll(2). Returns 0 or an errno; ETIMEDOUT: over the limit;
// ECANCELED: the program is to end.
[[nodiscard]] int wait_ready(int fd, short events, const WaitLimit& limit);

// Such an errno in words that follow "could not connect: ". kTimeout for the two above, else
// kUnavailable.
[[nodiscard]] Error net_error(int error);

}  // namespace profd
