// Lets coroutines of the io thread wait for a change of state, as a condition variable lets
// threads.

#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "daemon/base/coroutines.h"

namespace profd {

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
