// The daemon's side of a follower (follower.h): starts it, sends it commands, receives its events.
// No function waits: the descriptor is readable when there is an event.
//
// On the io thread.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "collectors/xray/live_packets.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd::xray {

struct LiveEvent {
  EventKind kind{};
  std::uint32_t functions = 0;
  std::uint32_t patched = 0;
  std::uint64_t records = 0;
  std::uint64_t dropped = 0;
  DetachReason reason{};
  Error error{};      // kFailed, kDetached
  UniqueFd result{};  // kResult: a memfd with a LiveResult, which the worker decodes
};

class LiveChild {
 public:
  // `program` and `door` are borrowed; the child gets descriptors of its own. `door` is one end of
  // a socket pair over which the app's connection comes (door::PassedPacket). `pattern` as
  // for choose_functions(); empty: all functions. `memory_bytes` limits the memory of the child and
  // of its result together, without the program itself.
  static Result<LiveChild> start(int program, int door, std::uint32_t session,
                                 std::string_view pattern, std::uint64_t memory_bytes);

  LiveChild(LiveChild&&) noexcept = default;
  LiveChild& operator=(LiveChild&&) = delete;

  // False: the child has ended. The next event is kFailed.
  bool send(Command command);

  // To be called when the descriptor is readable. None: the packet was not an event. The event is
  // kFailed, too, if the child died or sent an invalid packet.
  std::optional<LiveEvent> next_event();

  [[nodiscard]] int descriptor() const { return socket_.get(); }
  [[nodiscard]] pid_t process() const { return process_; }

 private:
  LiveChild(UniqueFd socket, pid_t process) : socket_(std::move(socket)), process_(process) {}

  UniqueFd socket_;
  pid_t process_;
  bool is_started_ = false;
};

}  // namespace profd::xray
