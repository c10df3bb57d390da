// The public control socket, which a door serves (collectors/door): starts the door, gives its
// clients to the control server, and replaces a door that dies or stands still.
//
// The daemon keeps the listening socket open and never accepts from it, so that clients wait while
// a door is replaced. A killed door may hang in the kernel, in the close of a descriptor that a
// user sent: it is not waited for. While kMaxStuck of them hang, there is no door, and only the
// admin socket is served. On the io thread, but for the start of a door, which waits for its exec.

#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "collectors/door/door_child.h"
#include "daemon/control/server.h"
#include "daemon/service/unix_listener.h"
#include "daemon/storage/worker.h"
#include "formats/base/result.h"

namespace profd {

class PublicDoor {
 public:
  static constexpr std::size_t kMaxStuck = 8;
  static constexpr std::chrono::milliseconds kStandstill{500};

  // The references must outlive the object. Accepts from start() on.
  PublicDoor(boost::asio::io_context& io, UnixListener listener, ControlServer& server);
  PublicDoor(const PublicDoor&) = delete;
  PublicDoor& operator=(const PublicDoor&) = delete;
  ~PublicDoor() { close(); }

  void start();

  // Clients that connect from now on wait in the listening socket; those of the server are served.
  void stop_accepting();

  // To be called when the server has answered its clients. Returns, with the door ended, when they
  // have their answers, or after two seconds; the io context can run dry then.
  boost::asio::awaitable<void> finish();

  [[nodiscard]] std::optional<pid_t> process() const;  // none: there is no door

 private:
  struct Door;

  boost::asio::awaitable<void> start_door();
  void close();
  void close_listener();
  // Kills the door and disconnects its clients.
  void end_door(Door& ended);
  void replace(const Error& why);
  void kill(pid_t process);
  void reap();
  boost::asio::awaitable<void> check();
  // Until the next check of the door.
  [[nodiscard]] std::chrono::milliseconds interval();
  boost::asio::awaitable<void> watch();
  boost::asio::awaitable<void> watch_connecting();
  void stop_watching();
  boost::asio::awaitable<void> receive(std::shared_ptr<Door> door);
  // Returns when a descriptor is free, or when the door has ended.
  boost::asio::awaitable<void> wait_for_descriptor(const std::shared_ptr<Door>& door);

  boost::asio::io_context& io_;
  UnixListener listener_;
  UniqueFd socket_;
  ControlServer& server_;
  std::optional<gid_t> group_;
  std::shared_ptr<Door> door_;  // null: there is none
  std::vector<pid_t> stuck_;    // killed, but not ended yet
  boost::asio::steady_timer timer_;
  boost::asio::steady_timer pause_;                   // of watch_connecting()
  boost::asio::posix::stream_descriptor connecting_;  // the listening socket, never read
  std::chrono::steady_clock::time_point last_client_{};
  bool is_stopped_ = false;
  bool was_refused_ = false;  // no door could be started at the last try
  Worker starter_{"door-starter"};
};

}  // namespace profd
