// What travels between the daemon and a door, and the memory that they share.

#pragma once

#include <atomic>
#include <cstdint>

namespace profd::door {

// The daemon's first packet, with two descriptors: the listening socket and a memfd, the DoorPage.
// Any further packet asks the door to accept no more connections.
struct StartPacket {
  std::uint32_t group = 0;  // whose members are privileged
  std::uint32_t has_group = 0;
};

// A new client, with one descriptor: the daemon's end of the socket pair.
struct ClientPacket {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::int32_t pid = 0;
  std::uint32_t is_in_group = 0;
};

// The door writes it, the daemon reads it. So the daemon needs no message from a door that hangs.
struct DoorPage {
  std::atomic<std::int64_t> busy_since_ns;  // CLOCK_MONOTONIC; 0: the door waits for events
};
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

}  // namespace profd::door
