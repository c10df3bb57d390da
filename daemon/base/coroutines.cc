#include "daemon/base/coroutines.h"

#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>

namespace profd {
namespace {

using boost::asio::awaitable;
using boost::asio::posix::stream_descriptor;

}  // namespace

void spawn(boost::asio::io_context& io, awaitable<void> task) {
  boost::asio::co_spawn(io, std::move(task), boost::asio::detached);
}

awaitable<void> wait_for(boost::asio::steady_timer& timer) { co_await timer.async_wait(kAsValues); }

void expire_with_others(boost::asio::steady_timer& timer, std::chrono::milliseconds interval) {
  const auto now = boost::asio::steady_timer::clock_type::now();
  timer.expires_at(now - now.time_since_epoch() % interval + interval);
}

awaitable<bool> wait_readable(stream_descriptor& descriptor) {
  const auto [error] = co_await descriptor.async_wait(stream_descriptor::wait_read, kAsValues);
  co_return !error;
}

awaitable<bool> wait_writable(stream_descriptor& descriptor) {
  const auto [error] = co_await descriptor.async_wait(stream_descriptor::wait_write, kAsValues);
  co_return !error;
}

awaitable<void> wait_for_error(stream_descriptor& descriptor) {
  co_await descriptor.async_wait(stream_descriptor::wait_error, kAsValues);
}

awaitable<void> yield() { co_await boost::asio::post(boost::asio::use_awaitable); }

}  // namespace profd
