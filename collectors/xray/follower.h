// The process that follows one app for one session: a sandboxed child (collectors/sandbox/child.h),
// so that nothing an app does reaches further than its own session.
//
// It finds the functions in the program's file, has the app patch them, reads the app's records
// into call stacks as they come, and sends the result as profiles. It takes its orders from the
// daemon (live_packets.h), and ends with the session or with the daemon.

#pragma once

#include "collectors/sandbox/child.h"

namespace profd::xray {

// For sandbox::run_as_child().
extern const sandbox::ChildKind kFollowerChild;

}  // namespace profd::xray
