// The daemon's side of the door of app.sock (app_door.h) and of its closer (closer.h): starts them,
// sends orders, receives what apps do, sees whether one hangs. No function waits.
//
// On the io thread.

#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>

#include "collectors/door/app_packets.h"
#include "collectors/door/page.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd::door {

class AppDoorChild {
 public:
  // `listener` is borrowed: a listening seqpacket socket, non-blocking.
  static Result<AppDoorChild> start(int listener);

  // To be called when the descriptor is readable. None: the packet was the answer to the start. An
  // error: the door has ended, or sent an invalid packet.
  Result<std::optional<AppPacket>> next_change();

  // `descriptor` is borrowed; -1: none. False: the door has no room for it now, so the descriptor
  // of the door is to become writable first. A door that has ended takes it, and is seen to have
  // ended by next_change().
  bool send(const AppOrderPacket& packet, int descriptor);

  [[nodiscard]] bool stands_still(std::chrono::milliseconds limit) const {
    return page_.stands_still(limit);
  }
  [[nodiscard]] int descriptor() const { return socket_.get(); }
  [[nodiscard]] pid_t process() const { return process_; }  // to be killed and reaped by the caller

 private:
  AppDoorChild(UniqueFd socket, pid_t process, WatchedPage page)
      : socket_(std::move(socket)), process_(process), page_(std::move(page)) {}

  UniqueFd socket_;
  pid_t process_;
  WatchedPage page_;
  bool is_started_ = false;
};

class CloserChild {
 public:
  // `door` is borrowed: the closer's end of a socket pair with the door.
  static Result<CloserChild> start(int door);

  [[nodiscard]] bool stands_still(std::chrono::milliseconds limit) const {
    return page_.stands_still(limit);
  }
  [[nodiscard]] pid_t process() const { return process_; }  // to be killed and reaped by the caller

 private:
  CloserChild(UniqueFd socket, pid_t process, WatchedPage page)
      : socket_(std::move(socket)), process_(process), page_(std::move(page)) {}

  UniqueFd socket_;
  pid_t process_;
  WatchedPage page_;
};

}  // namespace profd::door
