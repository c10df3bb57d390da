// The follower: the process that follows one app for one session. It is a sandboxed child
// (collectors/sandbox/child.h), so that an app can harm its own session only.
//
// The follower finds the functions in the program's file, asks the app to patch them, makes call
// stacks of the app's records as they arrive, and sends the result as profiles. It executes the
// daemon's commands (live_packets.h), and ends with the session or with the daemon.

#pragma once

#include "collectors/sandbox/child.h"

namespace profd::xray {

// For sandbox::run_as_child().
extern const sandbox::ChildKind kFollowerChild;

}  // namespace profd::xray
