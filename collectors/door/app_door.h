// The door of app.sock: the process that accepts the connections of instrumented apps, keeps them
// while no session wants them, and sends them to followers. So the daemon has no descriptor of an
// app's connection, and none that an app sends over it.
//
// The door reads nothing from an app: what an app sent waits for the follower. Nor does it close a
// connection, since that closes the descriptors in its queue, which may take as long as their
// sender likes: its closer (closer.h) does. So an app delays no other app. The door reports apps
// that come and go; the daemon judges them by their credentials and may disconnect them. It is a
// sandboxed child (collectors/sandbox/child.h).

#pragma once

#include <cstddef>

#include "collectors/sandbox/child.h"

namespace profd::door {

// Connections that are open or wait for the closer. More than the daemon admits: those over its
// limits are closed too. When so many are there, others wait in the listening socket. Fewer if the
// daemon's own limit of open files is lower.
inline constexpr std::size_t kMaxAppConnections = 1280;

// Descriptors that a door or closer has besides those of apps.
inline constexpr std::size_t kOwnDescriptors = 16;

// For sandbox::run_as_child().
extern const sandbox::ChildKind kAppDoorChild;

}  // namespace profd::door
