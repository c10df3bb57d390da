// What travels between the daemon and a door.

#pragma once

#include <cstdint>

namespace profd::door {

// The daemon's first packet, with two descriptors: the listening socket and a memfd, the
// DoorPage (page.h).
// Any further packet asks the door to accept no more connections.
struct StartPacket {
  std::uint32_t group = 0;  // whose members are privileged
  std::uint32_t has_group = 0;
};

// A new client, with one descriptor: the daemon's end of the socket pair. Without a descriptor: a
// client that the door closed, since it did not read the rest of its answers.
struct ClientPacket {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::int32_t pid = 0;
  std::uint32_t is_in_group = 0;
};

}  // namespace profd::door
