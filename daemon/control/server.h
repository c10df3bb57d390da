// The HTTP server on the control socket, for profctl and curl alike. docs/api.md is its
// description.
//
// One io thread. A client can't make it fail: connections are counted by uid and in all, each has
// its limits of size and time, and running out of file descriptors only makes new ones wait.

#pragma once

#include <cstddef>
#include <filesystem>
#include <list>
#include <map>
#include <memory>
#include <optional>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>

#include "daemon/control/http_connection.h"
#include "daemon/control/http_listener.h"
#include "daemon/control/service.h"
#include "formats/base/result.h"

namespace profd {

struct ControlLimits {
  std::size_t connections = 1024;
  std::size_t connections_per_uid = 128;  // root is not counted
  std::size_t reserved_for_root = 32;     // of connections
  HttpLimits http;
};

class ControlServer {
 public:
  // Listens from here on; answers from start() on. Both references must outlive the server. kBusy:
  // another daemon has the socket.
  static Result<std::unique_ptr<ControlServer>> open(boost::asio::io_context& io,
                                                     const std::filesystem::path& socket,
                                                     Service& service,
                                                     const ControlLimits& limits = {});

  // The same on a socket that is listened on already.
  static Result<std::unique_ptr<ControlServer>> serve_on(boost::asio::io_context& io,
                                                         HttpListener listener, Service& service,
                                                         const ControlLimits& limits = {});

  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  // After start(), only once stop() is through, or when `io` will not run again.
  ~ControlServer() = default;

  void start();

  // No new connections and requests; answers under way get 2 s. Returns when the last connection
  // has ended, and so after every call of the Service.
  boost::asio::awaitable<void> stop();

 private:
  using Acceptor = boost::asio::local::stream_protocol::acceptor;

  ControlServer(boost::asio::io_context& io, HttpListener listener, Acceptor acceptor,
                Service& service, const ControlLimits& limits);

  boost::asio::awaitable<void> accept_all();
  void admit(HttpConnection::Socket socket);
  [[nodiscard]] bool has_room_for(const Caller& caller) const;
  void serve(HttpConnection::Socket socket, const Caller& caller);
  void forget(std::list<HttpConnection>::iterator connection);
  boost::asio::awaitable<void> wait_until_idle(std::chrono::steady_clock::duration limit);
  [[nodiscard]] bool idle() const { return connections_.empty() && !accepting_; }

  boost::asio::io_context& io_;
  HttpListener listener_;
  Acceptor acceptor_;
  Service& service_;
  ControlLimits limits_;
  std::optional<gid_t> privileged_group_;
  std::list<HttpConnection> connections_;
  std::map<uid_t, std::size_t> connections_by_uid_;
  StatusInfo::Connections counts_;
  bool accepting_ = false;
  boost::asio::steady_timer idle_timer_;  // cancelled when idle() comes true
};

}  // namespace profd
