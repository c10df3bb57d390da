// Drains the source of samples: at an interval, and at once when it asks for that because a new
// file was mapped, a process runs anonymous code for the first time, a stack waits for its table or
// a ring fills up. Idle while nothing is sampled.
// On the io thread.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "collectors/sampling/sampler.h"

namespace profd {

class DrainLoop {
 public:
  // A stop() of a session waits for its last samples. Windows alone are in no hurry: a busy CPU
  // writes 20 KB a second to its ring of 1 MiB, and the source asks for what cannot wait.
  static constexpr std::chrono::milliseconds kIntervalOfSessions{100};
  static constexpr std::chrono::milliseconds kIntervalOfWindows{4000};

  // Both must outlive *this; `io` must have run dry before *this is destroyed.
  DrainLoop(boost::asio::io_context& io, Sampler& source);
  DrainLoop(const DrainLoop&) = delete;
  DrainLoop& operator=(const DrainLoop&) = delete;

  // Whether sessions run, and whether windows are sampled. With neither, which is so at first,
  // nothing is drained.
  void set_sessions(bool are_running);
  void set_windows(bool are_sampled);

  // Grows with each drain, and when an interval begins; none while nothing is drained. For the
  // watchdog.
  [[nodiscard]] std::optional<std::uint64_t> drains() const;

  // Ends both coroutines for good.
  void stop();

 private:
  void set_interval();
  boost::asio::awaitable<void> drain();
  boost::asio::awaitable<void> drain_by_time();
  boost::asio::awaitable<void> drain_on_request();

  Sampler& source_;
  boost::asio::steady_timer timer_;
  boost::asio::posix::stream_descriptor wake_;
  bool sessions_ = false;
  bool windows_ = false;
  std::optional<std::chrono::milliseconds> interval_;
  std::uint64_t drains_ = 0;
  bool stopped_ = false;
};

}  // namespace profd
