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
      listener_(std::move(listener)),
      acceptor_(io, Protocol(), listener_.take_fd().release()),
      service_(service),
      limits_(limits),
      privileged_group_(find_privileged_group()),
      shared_answers_(limits.shared_answers),
      idle_timer_(io) {
  refuse_descriptors(acceptor_.native_handle());
}

ControlServer::~ControlServer() = default;

ControlServer::Client::Client(Protocol::socket socket, const Caller& caller, bool of_door,
                              ControlServer& server)
    : is_of_door(of_door),
      user(server.owners_.owner_of(caller.uid)),
      connection(std::move(socket), caller, user,
                 {.service = server.service_,
                  .disk_reader = server.disk_reader_,
                  .answers = server.answers_,
                  .shared = server.shared_answers_,
                  .counts = server.counts_,
                  .limits = server.limits_.http}) {}

void ControlServer::start() {
  accepting_ = true;
  asio::co_spawn(io_, accept_all(), [this](const std::exception_ptr&) {
    accepting_ = false;
    if (idle()) idle_timer_.cancel();
  });
}

asio::awaitable<void> ControlServer::stop() {
  error_code ignored;
  acceptor_.close(ignored);
  for (Client& client : clients_) client.connection.finish();
  while (!idle()) {
    for (Client& client : clients_) client.had_grace = !client.connection.is_answering();
    co_await wait_until_idle(std::chrono::steady_clock::now() + kGrace);
    for (Client& client : clients_) {
      if (client.had_grace) client.connection.abort();
    }
  }
}

asio::awaitable<void> ControlServer::wait_until_idle(std::chrono::steady_clock::time_point end) {
  idle_timer_.expires_at(end);
  if (!idle()) {
    co_await wait_for(idle_timer_);
  }
}

asio::awaitable<void> ControlServer::accept_all() {
  asio::steady_timer pause(io_);
  bool starved = false;
  while (acceptor_.is_open()) {
    auto [error, socket] = co_await acceptor_.async_accept(kAsValues);
    if (!error) {
      starved = false;
      const auto caller = identify_caller(socket.native_handle(), privileged_group_);
      if (caller) admit(std::move(socket), *caller, false);
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

void ControlServer::serve_client_of_door(const Peer& peer, UniqueFd socket) {
  error_code error;
  Protocol::socket ours(io_);
  ours.assign(Protocol(), socket.get(), error);
  if (error) return;
  (void)socket.release();
  admit(std::move(ours), caller_of(peer), true);
}

void ControlServer::count_unread(const Peer& peer) {
  ++counts_.unread;
  service_.count_refusal(caller_of(peer), "connections.unread");
}

void ControlServer::abort_clients_of_door() {
  for (Client& client : clients_) {
    if (client.is_of_door) client.connection.abort();
  }
}

void ControlServer::admit(Protocol::socket socket, const Caller& caller, bool of_door) {
  if (has_room_for(caller, of_door)) {
    serve(std::move(socket), caller, of_door);
  } else {
    ++counts_.refused;
    service_.count_refusal(caller, "connections.refused");
    refuse(socket);
  }
}

// Clients of the door take no room of the admin socket's.
bool ControlServer::has_room_for(const Caller& caller, bool of_door) {
  const std::size_t taken = of_door ? of_door_ : clients_.size() - of_door_;
  if (caller.uid == 0) return taken < limits_.connections;
  if (taken + limits_.reserved_for_root >= limits_.connections) return false;
  const auto held = connections_by_user_.find(owners_.owner_of(caller.uid));
  return held == connections_by_user_.end() || held->second < limits_.connections_per_uid;
}

void ControlServer::serve(Protocol::socket socket, const Caller& caller, bool of_door) {
  const auto client = clients_.emplace(clients_.end(), std::move(socket), caller, of_door, *this);
  ++connections_by_user_[client->user];
  if (of_door) ++of_door_;
  ++counts_.open;
  asio::co_spawn(io_, client->connection.run(),
                 [this, client](const std::exception_ptr&) { forget(client); });
}

void ControlServer::forget(std::list<Client>::iterator client) {
  const auto held = connections_by_user_.find(client->user);
  if (--held->second == 0) connections_by_user_.erase(held);
  if (client->is_of_door) --of_door_;
  clients_.erase(client);
  --counts_.open;
  if (idle()) idle_timer_.cancel();
}

}  // namespace profd
