#include "ctl/listen/tcp_listener.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <exception>
#include <tuple>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/error_code.hpp>
#include <boost/system/system_error.hpp>

namespace profd {
namespace {

namespace asio = boost::asio;

constexpr auto kAcceptTuple = asio::as_tuple(asio::use_awaitable);
constexpr std::chrono::milliseconds kPause{100};

// Watches a descriptor of its own, since it closes that. Throws boost::system::system_error.
void watch(asio::posix::stream_descriptor& stop, int stop_fd) {
  boost::system::error_code error;
  const int own = ::dup(stop_fd);
  if (own < 0) {
    error.assign(errno, boost::system::system_category());
  } else {
    stop.assign(own, error);
    if (error) ::close(own);
  }
  if (error) throw boost::system::system_error(error, "could not wait for the end");
}

}  // namespace

void TcpListener::run(int stop_fd, Serve serve, MakeRoom make_room) {
  serve_ = std::move(serve);
  make_room_ = std::move(make_room);
  asio::posix::stream_descriptor stop(io_);
  watch(stop, stop_fd);
  stop.async_wait(asio::posix::stream_descriptor::wait_read,
                  [this](const boost::system::error_code&) { io_.stop(); });
  // Without it nothing would be accepted any more, so run() ends with what it throws.
  asio::co_spawn(io_, accept_all(), [](const std::exception_ptr& failure) {
    if (failure) std::rethrow_exception(failure);
  });
  io_.run();
}

asio::awaitable<void> TcpListener::accept_all() {
  while (true) {
    auto accepting = acceptor_.async_accept(kAcceptTuple);
    auto accepted = co_await std::move(accepting);
    const auto& error = std::get<0>(accepted);
    if (!error && !has_room()) continue;  // closes it
    if (error || !start_serving(std::move(std::get<1>(accepted)))) {
      // No descriptor or no memory is free, which changes soon.
      asio::steady_timer pause(io_, kPause);
      auto waiting = pause.async_wait(kAcceptTuple);
      co_await std::move(waiting);
    }
  }
}

bool TcpListener::start_serving(asio::ip::tcp::socket socket) {
  ++connections_;
  try {
    auto serving = serve_(std::move(socket));
    asio::co_spawn(io_, std::move(serving), [this](const std::exception_ptr&) { --connections_; });
    return true;
  } catch (const std::exception&) {
    --connections_;
    return false;
  }
}

bool TcpListener::has_room() const { return connections_ < limit_ || (make_room_ && make_room_()); }

}  // namespace profd
