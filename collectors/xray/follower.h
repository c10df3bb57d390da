// The process that follows one app for one session: without rights
// (collectors/sandbox/privileges.h), so that nothing an app does reaches further than its own
// session.
//
// It finds the functions in the program's file, has the app patch them, reads the app's records
// into call stacks as they come, and gives the result as profiles. It ends with the session, or
// with the daemon.

#pragma once

#include "formats/base/unique_fd.h"

namespace profd::xray {

// `program` is the app's executable, `connection` its socket. Takes orders from `daemon`
// (live_packets.h) until all is told or the daemon is gone.
void follow_app(int daemon, UniqueFd program, UniqueFd connection);

}  // namespace profd::xray
