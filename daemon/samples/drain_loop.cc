#include "daemon/samples/drain_loop.h"

#include <fcntl.h>

#include <chrono>
#include <utility>

#include "daemon/base/coroutines.h"

namespace profd {

// Asio closes the descriptor that it is given, so it gets a copy.
DrainLoop::DrainLoop(boost::asio::io_context& io, Sampler& source)
    : source_(source), timer_(io), wake_(io, ::fcntl(source.wake_fd(), F_DUPFD_CLOEXEC, 0)) {
  spawn(io, drain_by_time());
  spawn(io, drain_on_request());
}

void DrainLoop::set_sessions(bool are_running) {
  sessions_ = are_running;
  set_interval();
}

void DrainLoop::set_windows(bool are_sampled) {
  windows_ = are_sampled;
  set_interval();
}

void DrainLoop::set_interval() {
  std::optional<std::chrono::milliseconds> interval;
  if (windows_) interval = kIntervalOfWindows;
  if (sessions_) interval = kIntervalOfSessions;
  if (std::exchange(interval_, interval) == interval || !interval) return;
  ++drains_;
  timer_.cancel();
}

std::optional<std::uint64_t> DrainLoop::drains() const {
  if (!interval_) return std::nullopt;
  return drains_;
}

void DrainLoop::stop() {
  stopped_ = true;
  timer_.cancel();
  wake_.cancel();
}

boost::asio::awaitable<void> DrainLoop::drain_by_time() {
  while (!stopped_) {
    expire_with_others(timer_, interval_.value_or(std::chrono::hours(24)));
    co_await wait_for(timer_);
    if (!interval_) continue;
    co_await drain();
  }
}

// Others have their turns in between.
boost::asio::awaitable<void> DrainLoop::drain() {
  bool has_more = true;
  while (has_more && !stopped_) {
    has_more = source_.drain();
    ++drains_;
    if (has_more) {
      co_await yield();
    }
  }
}

boost::asio::awaitable<void> DrainLoop::drain_on_request() {
  while (!stopped_) {
    const bool readable = co_await wait_readable(wake_);
    if (!readable) co_return;
    co_await drain();
  }
}

}  // namespace profd
