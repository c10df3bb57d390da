#include "ctl/ship/transport/net_wait.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include <boost/system/error_code.hpp>

#include "formats/base/errors.h"

namespace profd {

int wait_ready(int fd, short events, const WaitLimit& limit) {
  using std::chrono::milliseconds;
  constexpr milliseconds kMost{3'600'000};  // poll(2) has an int
  while (true) {
    const auto left = std::min(
        kMost, std::chrono::ceil<milliseconds>(limit.until - std::chrono::steady_clock::now()));
    if (left <= milliseconds(0)) return ETIMEDOUT;
    std::array<pollfd, 2> ready{pollfd{.fd = fd, .events = events, .revents = 0},
                                pollfd{.fd = limit.stop_fd, .events = POLLIN, .revents = 0}};
    const int count = ::poll(ready.data(), ready.size(), static_cast<int>(left.count()));
    if (count > 0) return ready[1].revents != 0 ? ECANCELED : 0;
    if (count < 0 && errno != EINTR) return errno;
  }
}

Error net_error(int error) {
  if (error == ETIMEDOUT) return fail(ErrorCode::kTimeout, "it took too long");
  if (error == ECANCELED) return fail(ErrorCode::kTimeout, "profctl is to end");
  const boost::system::error_code code(error, boost::system::system_category());
  return fail(ErrorCode::kUnavailable, code.message());
}

}  // namespace profd
