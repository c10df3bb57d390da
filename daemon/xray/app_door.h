// The processes that hold the connections to app.sock for the daemon: the door, which accepts them,
// and its closer (collectors/door). Starts them, and replaces one that dies or stands still.
//
// The daemon keeps the listening socket open and never accepts from it, so that apps wait while a
// door is replaced; those that the old one had connect again. A killed process may hang in the
// kernel, in the close of a descriptor that a user sent: it is not waited for. While kMaxStuck of
// them hang, no other is started. On the io thread, but for the start of a process, which waits for
// its exec.

#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "collectors/door/app_door_child.h"
#include "daemon/storage/worker.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

class AppDoor {
 public:
  static constexpr std::size_t kMaxStuck = 8;
  static constexpr std::chrono::milliseconds kStandstill{500};

  struct Events {
    std::function<void(const door::AppPacket&)> changed;
    std::function<void()> ended;  // with all its apps
  };

  struct Counts {
    std::uint64_t doors_replaced = 0;
    std::uint64_t closers_replaced = 0;
    std::size_t stuck = 0;  // of both, killed but not ended yet
  };

  // `io` must outlive the object. `listener`: a listening seqpacket socket, non-blocking.
  AppDoor(boost::asio::io_context& io, UniqueFd listener, Events events);
  AppDoor(const AppDoor&) = delete;
  AppDoor& operator=(const AppDoor&) = delete;
  ~AppDoor() { close(); }

  // Of an app that the door has reported. Nothing happens if it is gone.
  void disconnect(std::uint64_t app);
  // Sends the app's connection over `follower`, one end of a seqpacket socket pair. Without the
  // app, only closes the end.
  void pass(std::uint64_t app, UniqueFd follower);

  // Ends both processes, so that the io context can run dry. Apps are disconnected.
  void close();

  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  struct Door;

  // False: none is started now.
  bool may_start();
  boost::asio::awaitable<void> start_missing();
  boost::asio::awaitable<Result<void>> start_door();
  boost::asio::awaitable<Result<void>> start_closer();
  void end_door();
  void end_closer();
  void kill(pid_t process);
  void replace_door(const Error& why);
  void replace_closer(const char* why);
  void reap();
  boost::asio::awaitable<void> check();
  [[nodiscard]] bool has_closer_died();
  void order(const door::AppOrderPacket& packet, UniqueFd descriptor = UniqueFd());
  static boost::asio::awaitable<void> send_orders(std::shared_ptr<Door> door);
  boost::asio::awaitable<void> watch();
  boost::asio::awaitable<void> watch_connecting();
  void note(const door::AppPacket& packet);
  boost::asio::awaitable<void> receive(std::shared_ptr<Door> door);

  boost::asio::io_context& io_;
  UniqueFd listener_;
  Events events_;
  std::shared_ptr<Door> door_;  // null: there is none
  std::optional<door::CloserChild> closer_;
  // To be destroyed by starter_: the lock of the memory map, which that needs, may be held for
  // long.
  std::vector<door::CloserChild> ended_closers_;
  std::vector<pid_t> stuck_;
  Counts counts_;
  boost::asio::steady_timer timer_;
  boost::asio::steady_timer pause_;                   // of watch_connecting()
  boost::asio::posix::stream_descriptor connecting_;  // the listening socket, never read
  std::set<std::uint64_t> connected_;                 // apps
  std::chrono::steady_clock::time_point last_app_{};  // when there was one
  bool is_stopped_ = false;
  bool was_refused_ = false;  // none could be started at the last try
  Worker starter_{"door-starter"};
};

}  // namespace profd
