// What the daemon's coroutines begin with and wait for.
//
// These functions are compiled once. The same Asio calls written out in each source make the
// compiler generate a second's worth of templates for each of them.

#pragma once

#include <chrono>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace profd {

// An operation that ends with a tuple, the error code first, in the place of an exception.
inline constexpr auto kAsValues = boost::asio::as_tuple(boost::asio::use_awaitable);

// Starts `task` on the thread of `io`, from its event loop. An exception that leaves `task` is
// dropped.
void spawn(boost::asio::io_context& io, boost::asio::awaitable<void> task);

// Returns when the timer expires or is cancelled. The timer must live until then.
boost::asio::awaitable<void> wait_for(boost::asio::steady_timer& timer);

// Lets the timer expire at the next multiple of `interval` since its clock began. So timers of one
// interval expire together, and an idle host wakes up once for all of them.
void expire_with_others(boost::asio::steady_timer& timer, std::chrono::milliseconds interval);

// Returns true when `descriptor` can be read, or is at its end; false when the wait is cancelled or
// the descriptor closed. The object must live until then. Name the result before you test it: g++
// 12.2 misplaces the coroutine's frame for `if (!co_await wait_readable(x)) co_return;` in some
// loops.
boost::asio::awaitable<bool> wait_readable(boost::asio::posix::stream_descriptor& descriptor);

// The same for writing.
boost::asio::awaitable<bool> wait_writable(boost::asio::posix::stream_descriptor& descriptor);

// Returns when an error is pending on `descriptor`, as when the peer of a socket disconnects, or as
// above.
boost::asio::awaitable<void> wait_for_error(boost::asio::posix::stream_descriptor& descriptor);

// Lets the other tasks of this thread run once.
boost::asio::awaitable<void> yield();

// Lets coroutines of the io thread wait for a change of state, as a condition variable lets
// threads.
class AsyncCondition {
 public:
  // A timer that never expires: cancelling it resumes all coroutines that wait.
  explicit AsyncCondition(boost::asio::io_context& io)
      : never_(io, boost::asio::steady_timer::time_point::max()) {}

  // Returns at the next notify_all(). The caller checks its state before and after.
  [[nodiscard]] boost::asio::awaitable<void> wait() { return wait_for(never_); }
  void notify_all() { never_.cancel(); }

 private:
  boost::asio::steady_timer never_;
};

}  // namespace profd
