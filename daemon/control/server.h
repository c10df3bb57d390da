// The HTTP server on the control sockets, for profctl and curl. docs/api.md has its routes.
//
// On the io thread. No client can make the server fail: connections are limited by uid and in all,
// each has limits of size and time, and without free file descriptors new ones wait.

#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <list>
#include <map>
#include <optional>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>

#include "collectors/door/door.h"
#include "collectors/host/uid_owners.h"
#include "daemon/control/answer_budget.h"
#include "daemon/control/http_connection.h"
#include "daemon/control/service.h"
#include "daemon/control/shared_answers.h"
#include "daemon/service/unix_listener.h"
#include "daemon/storage/worker.h"

namespace profd {

struct ControlLimits {
  std::size_t connections = door::kMaxAdmitted;
  std::size_t connections_per_uid = 128;  // except root's
  std::size_t reserved_for_root = 32;     // of connections
  // How old an answer that unprivileged callers share may be (shared_answers.h).
  std::chrono::milliseconds shared_answers{100};
  HttpLimits http;
};

class ControlServer {
 public:
  // Answers from start() on. Both references must outlive the server. Throws
  // boost::system::system_error when the listener cannot be watched.
  ControlServer(boost::asio::io_context& io, UnixListener listener, Service& service,
                const ControlLimits& limits = {});
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  // After start(): only when stop() has returned, or when `io` will not run again.
  ~ControlServer();

  void start();

  // A client that a door has accepted (public_door.h), within the same limits. Also after stop()
  // has begun, for a client that came just before.
  void serve_client_of_door(const Peer& peer, UniqueFd socket);
  // A client that the door closed, since it did not read the rest of its answers.
  void count_unread(const Peer& peer);
  void abort_clients_of_door();
  [[nodiscard]] std::size_t clients_of_door() const { return of_door_; }

  [[nodiscard]] StatusInfo::Connections& counts() { return counts_; }

  // Accepts no more connections and requests. Waits for the answers that the Service is making, and
  // then at least 2 s until the client has read one. Returns when the last connection has ended.
  boost::asio::awaitable<void> stop();

 private:
  using Protocol = boost::asio::local::stream_protocol;

  struct Client {
    Client(Protocol::socket socket, const Caller& caller, bool of_door, ControlServer& server);

    bool is_of_door;
    bool had_grace = false;  // only to read its answer
    uid_t user;              // whose connections it counts as
    HttpConnection connection;
  };

  boost::asio::awaitable<void> accept_all();
  void admit(Protocol::socket socket, const Caller& caller, bool of_door);
  [[nodiscard]] bool has_room_for(const Caller& caller, bool of_door);
  void serve(Protocol::socket socket, const Caller& caller, bool of_door);
  void forget(std::list<Client>::iterator client);
  boost::asio::awaitable<void> wait_until_idle(std::chrono::steady_clock::time_point end);
  [[nodiscard]] bool idle() const { return clients_.empty() && !accepting_; }

  boost::asio::io_context& io_;
  UnixListener listener_;
  Protocol::acceptor acceptor_;
  Service& service_;
  ControlLimits limits_;
  std::optional<gid_t> privileged_group_;
  Worker disk_reader_{"disk-reader"};
  AnswerBudget answers_;
  SharedAnswers shared_answers_;
  std::list<Client> clients_;
  std::size_t of_door_ = 0;  // of clients_
  UidOwners owners_;
  std::map<uid_t, std::size_t> connections_by_user_;
  StatusInfo::Connections counts_;
  std::size_t accepting_ = 0;             // coroutines
  boost::asio::steady_timer idle_timer_;  // cancelled when idle() becomes true
};

}  // namespace profd
