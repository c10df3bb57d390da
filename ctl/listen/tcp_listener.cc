#include "ctl/listen/tcp_listener.h"

#include <unistd.h>

#include <chrono>
#include <exception>
#include <tuple>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace profd {
namespace {

namespace asio = boost::asio;

constexpr auto kAcceptTuple = asio::as_tuple(asio::use_awaitable);
constexpr std::chrono::milliseconds kPause{100};

}  // namespace

void TcpListener::run(int stop_fd, Serve serve, MakeRoom make_room) {
  serve_ = std::move(serve);
  make_room_ = std::move(make_room);
  asio::posix::stream_descriptor stop(io_, ::dup(stop_fd));
  stop.async_wait(asio::posix::stream_descriptor::wait_read,
                  [this](const boost::system::error_code&) { io_.stop(); });
  asio::co_spawn(io_, accept_all(), asio::detached);
  io_.run();
}

asio::awaitable<void> TcpListener::accept_all() {
  while (true) {
    auto accepting = acceptor_.async_accept(kAcceptTuple);
    auto accepted = co_await std::move(accepting);
    if (std::get<0>(accepted)) {
      // No descriptor is free: some are soon.
      asio::steady_timer pause(io_, kPause);
      auto waiting = pause.async_wait(kAcceptTuple);
      co_await std::move(waiting);
      continue;
    }
    if (!has_room()) continue;  // closes it
    ++connections_;
    auto serving = serve_(std::move(std::get<1>(accepted)));
    asio::co_spawn(io_, std::move(serving), [this](const std::exception_ptr&) { --connections_; });
  }
}

bool TcpListener::has_room() const { return connections_ < limit_ || (make_room_ && make_room_()); }

}  // namespace profd
