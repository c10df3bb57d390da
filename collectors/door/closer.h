// The closer: the process that closes the connections of apps for a door (app_door.h). What an app
// sent and nobody received is closed with its connection, and the last close of a lingering TCP
// socket, or of a file in a FUSE file system, takes as long as its owner likes.
//
// A closer has nothing that anyone else waits for. The daemon kills one that stands still, and
// starts another. It first receives all connections that are to be closed, so those die with it.
// It is a sandboxed child (collectors/sandbox/child.h).

#pragma once

#include <cstddef>

#include "collectors/sandbox/child.h"

namespace profd::door {

inline constexpr std::size_t kMaxKept = 1024;

// For sandbox::run_as_child().
extern const sandbox::ChildKind kCloserChild;

}  // namespace profd::door
