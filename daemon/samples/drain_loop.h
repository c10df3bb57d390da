// Drains the source of samples: by time, and at once when it asks for that because a new file was
// mapped, a stack waits for its table or a ring fills up. Idle while nothing is sampled. On the io
// thread.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "daemon/sessions/sample_source.h"

namespace profd {

class DrainLoop {
 public:
  // Both must outlive *this; `io` must have run dry before *this goes.
  DrainLoop(boost::asio::io_context& io, SampleSource& source);
  DrainLoop(const DrainLoop&) = delete;
  DrainLoop& operator=(const DrainLoop&) = delete;

  // While paused, which it is at first, nothing is drained.
  void resume(std::chrono::milliseconds interval);
  void pause();

  // Grows with each drain by time, and by resume(); none while paused. A life sign.
  [[nodiscard]] std::optional<std::uint64_t> drains() const;

  // Ends both flows for good.
  void stop();

 private:
  boost::asio::awaitable<void> drain_by_time();
  boost::asio::awaitable<void> drain_on_request();

  SampleSource& source_;
  boost::asio::steady_timer timer_;
  boost::asio::posix::stream_descriptor wake_;
  std::chrono::milliseconds interval_{};
  std::uint64_t drains_ = 0;
  bool active_ = false;
  bool stopped_ = false;
};

}  // namespace profd
