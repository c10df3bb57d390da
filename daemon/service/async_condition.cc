#include "daemon/service/async_condition.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace profd {

boost::asio::awaitable<void> AsyncCondition::wait() {
  co_await never_.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
}

}  // namespace profd
