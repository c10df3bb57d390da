#include "daemon/control/server.h"

#include <sys/socket.h>

#include <chrono>
#include <string>
#include <utility>

#include <boost/asio/co_spawn.hpp>

#include "daemon/base/coroutines.h"
#include "daemon/base/log.h"
#include "daemon/service/caller.h"
#include "formats/api/error_json.h"

namespace profd {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using namespace std::chrono_literals;

constexpr auto kGrace = 2s;
constexpr auto kAcceptPause = 100ms;

// Does not wait for the client: the buffer of a new socket has room for the answer.
void refuse(HttpConnection::Socket& socket) {
  const std::string body =
      to_json(fail(ErrorCode::kBusy, "too many connections to profd", "try again later"));
  const std::string text =
      "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" + body;
  (void)::send(socket.native_handle(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace

ControlServer::ControlServer(asio::io_context& io, UnixListener listener, Service& service,
                             const ControlLimits& limits)
    : io_(io),
      service_(service),
      limits_(limits),
      privileged_group_(find_privileged_group()),
      idle_timer_(io) {
  add(std::move(listener));
}

ControlServer::~ControlServer() = default;

ControlServer::Entrance::Entrance(asio::io_context& io, UnixListener from)
    : listener(std::move(from)), acceptor(io, Protocol(), listener.take_fd().release()) {}

void ControlServer::add(UnixListener listener) {
  entrances_.emplace_back(io_, std::move(listener));
}

void ControlServer::start() {
  for (Entrance& entrance : entrances_) {
    ++accepting_;
    asio::co_spawn(io_, accept_all(entrance.acceptor), [this](const std::exception_ptr&) {
      --accepting_;
      if (idle()) idle_timer_.cancel();
    });
  }
}

asio::awaitable<void> ControlServer::stop() {
  error_code ignored;
  for (Entrance& entrance : entrances_) entrance.acceptor.close(ignored);
  for (HttpConnection& connection : connections_) connection.finish();
  co_await wait_until_idle(std::chrono::steady_clock::now() + kGrace);
  for (HttpConnection& connection : connections_) connection.abort();
  co_await wait_until_idle(std::chrono::steady_clock::time_point::max());
}

asio::awaitable<void> ControlServer::wait_until_idle(std::chrono::steady_clock::time_point end) {
  idle_timer_.expires_at(end);
  if (!idle()) {
    co_await wait_for(idle_timer_);
  }
}

asio::awaitable<void> ControlServer::accept_all(Protocol::acceptor& acceptor) {
  asio::steady_timer pause(io_);
  bool starved = false;
  while (acceptor.is_open()) {
    auto [error, socket] = co_await acceptor.async_accept(kAsValues);
    if (!error) {
      starved = false;
      admit(std::move(socket));
    } else if (error != asio::error::operation_aborted) {
      // No file descriptor or memory is free: the client waits in the backlog until other
      // connections have ended. Logged once for all tries in a row.
      if (!starved) {
        log::warn("could not accept a connection: {}", error.message());
        ++counts_.starved;
      }
      starved = true;
      pause.expires_after(kAcceptPause);
      co_await wait_for(pause);
    }
  }
}

void ControlServer::admit(Protocol::socket socket) {
  const auto caller = identify_caller(socket.native_handle(), privileged_group_);
  if (!caller) return;
  if (has_room_for(*caller)) {
    serve(std::move(socket), *caller);
  } else {
    ++counts_.refused;
    refuse(socket);
  }
}

bool ControlServer::has_room_for(const Caller& caller) const {
  if (caller.uid == 0) return connections_.size() < limits_.connections;
  if (connections_.size() + limits_.reserved_for_root >= limits_.connections) return false;
  const auto held = connections_by_uid_.find(caller.uid);
  return held == connections_by_uid_.end() || held->second < limits_.connections_per_uid;
}

void ControlServer::serve(Protocol::socket socket, const Caller& caller) {
  const auto connection = connections_.emplace(connections_.end(), std::move(socket), caller,
                                               service_, counts_, limits_.http);
  ++connections_by_uid_[caller.uid];
  ++counts_.open;
  asio::co_spawn(io_, connection->run(),
                 [this, connection](const std::exception_ptr&) { forget(connection); });
}

void ControlServer::forget(std::list<HttpConnection>::iterator connection) {
  const auto held = connections_by_uid_.find(connection->caller().uid);
  if (--held->second == 0) connections_by_uid_.erase(held);
  connections_.erase(connection);
  --counts_.open;
  if (idle()) idle_timer_.cancel();
}

}  // namespace profd
