// The door: the process that accepts connections on the public control socket, so that the daemon
// never receives or closes a descriptor that a user sent (SCM_RIGHTS). The last close of such a
// descriptor may take as long as its sender likes, and recv() and close() of a socket do it.
//
// For each client the door makes a socket pair, sends one end and the client's credentials to the
// daemon, and copies bytes both ways. It parses nothing. It is a sandboxed child
// (collectors/sandbox/child.h); the daemon kills a door that hangs, and starts another.

#pragma once

#include <cstddef>

#include "collectors/sandbox/child.h"

namespace profd::door {

// Clients that the daemon admits at a time, and those that the door has room for: clients over the
// limits get an answer, and those that the daemon has closed may read the rest of theirs.
inline constexpr std::size_t kMaxAdmitted = 1024;
inline constexpr std::size_t kMaxClients = 1152;

// For sandbox::run_as_child().
extern const sandbox::ChildKind kDoorChild;

}  // namespace profd::door
