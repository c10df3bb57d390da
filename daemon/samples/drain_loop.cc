#include "daemon/samples/drain_loop.h"

#include <fcntl.h>

#include <chrono>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace profd {
namespace {

constexpr auto kTuple = boost::asio::as_tuple(boost::asio::use_awaitable);

}  // namespace

// Its own descriptor of the source's wake-up, since Asio closes the one it is given.
DrainLoop::DrainLoop(boost::asio::io_context& io, SampleSource& source)
    : source_(source), timer_(io), wake_(io, ::fcntl(source.wake_fd(), F_DUPFD_CLOEXEC, 0)) {
  boost::asio::co_spawn(io, drain_by_time(), boost::asio::detached);
  boost::asio::co_spawn(io, drain_on_request(), boost::asio::detached);
}

void DrainLoop::resume(std::chrono::milliseconds interval) {
  if (active_ && interval_ == interval) return;
  active_ = true;
  interval_ = interval;
  ++drains_;
  timer_.cancel();
}

void DrainLoop::pause() { active_ = false; }

std::optional<std::uint64_t> DrainLoop::drains() const {
  if (!active_) return std::nullopt;
  return drains_;
}

void DrainLoop::stop() {
  stopped_ = true;
  timer_.cancel();
  wake_.cancel();
}

boost::asio::awaitable<void> DrainLoop::drain_by_time() {
  while (!stopped_) {
    timer_.expires_after(active_ ? interval_ : std::chrono::hours(24));
    co_await timer_.async_wait(kTuple);
    if (!active_) continue;
    source_.drain();
    ++drains_;
  }
}

boost::asio::awaitable<void> DrainLoop::drain_on_request() {
  while (!stopped_) {
    const auto [error] =
        co_await wake_.async_wait(boost::asio::posix::stream_descriptor::wait_read, kTuple);
    if (error) co_return;
    source_.drain();
  }
}

}  // namespace profd
