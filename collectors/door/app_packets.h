// What travels between the daemon, the door of app.sock (app_door.h), its closer (closer.h) and a
// follower of an app (collectors/xray).

#pragma once

#include <cstdint>

namespace profd::door {

enum class AppOrder : std::uint32_t {
  kStart = 1,   // the first packet, with two descriptors: the listening socket and the DoorPage
  kCloser,      // with one descriptor: the door's end of a socket pair with a new closer
  kPass,        // with one descriptor: a socket over which the app's connection is sent
  kDisconnect,  // no answer; nothing happens if the app is gone
};

// From the daemon to the door.
struct AppOrderPacket {
  AppOrder order{};
  std::uint32_t connections = 0;  // kStart; that the limit of open files has room for
  std::uint64_t app = 0;          // kPass, kDisconnect
};

enum class AppChange : std::uint32_t {
  kConnected = 1,
  kDisconnected,  // by itself; an order has no answer
};

// From the door to the daemon.
struct AppPacket {
  AppChange change{};
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::int32_t pid = 0;
  std::uint64_t app = 0;  // its number, which the door never uses again
};

// From the door to a follower, with one descriptor: the app's connection.
struct PassedPacket {
  std::uint32_t reserved = 0;
};

enum class ClosingStep : std::uint32_t {
  kKeep = 1,  // with one descriptor; the closer sends the same packet back without it
  kClose,     // the sender has closed its own descriptors of all that is kept
};

// From the door to its closer, and back. The first packet is the daemon's, with two descriptors:
// the closer's end of the socket pair and the DoorPage.
struct ClosingPacket {
  ClosingStep step{};
};

}  // namespace profd::door
