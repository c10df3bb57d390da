// The daemon's side of a door (door.h): starts it, receives its clients, sees whether it hangs.
// No function waits: the descriptor is readable when there is a client, or when the door has ended.
//
// On the io thread.

#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>

#include "collectors/door/page.h"
#include "collectors/host/peer.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd::door {

// A client behind the door: a new one, or one that the door closed.
struct DoorClient {
  Peer peer;
  UniqueFd socket;  // a stream socket, whose other end the door has; not valid: it was closed,
                    // since it did not read the rest of its answers
};

class DoorChild {
 public:
  // `listener` is borrowed: a listening stream socket, non-blocking. The members of `group` are
  // privileged.
  static Result<DoorChild> start(int listener, std::optional<gid_t> group);

  // To be called when the descriptor is readable. None: the packet was no client. An error: the
  // door has ended, or sent an invalid packet.
  Result<std::optional<DoorClient>> next_client();

  // Whether the door has worked on one event for longer than `limit`.
  [[nodiscard]] bool stands_still(std::chrono::milliseconds limit) const {
    return page_.stands_still(limit);
  }

  void stop_accepting();

  // The door ends when it has passed on what it holds for its clients. It is given no order after
  // this.
  void finish();
  [[nodiscard]] bool has_ended() const;

  [[nodiscard]] int descriptor() const { return socket_.get(); }
  [[nodiscard]] pid_t process() const { return process_; }  // to be killed and reaped by the caller

 private:
  DoorChild(UniqueFd socket, pid_t process, WatchedPage page)
      : socket_(std::move(socket)), process_(process), page_(std::move(page)) {}

  UniqueFd socket_;
  pid_t process_;
  WatchedPage page_;
  bool is_started_ = false;
};

}  // namespace profd::door
