// Starts a sandboxed child: the running program again, as a given kind of child.

#pragma once

#include <sys/types.h>

#include <functional>

#include "collectors/sandbox/child.h"
#include "collectors/sandbox/privileges.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd::sandbox {

// Makes a process that serves the socket, which stays the caller's.
using Spawn = std::function<Result<pid_t>(int socket)>;

// Runs /proc/self/exe as this kind of child, with the socket as descriptor kChildSocket.
[[nodiscard]] Result<pid_t> spawn_child(const ChildKind& kind, int socket);

struct ChildProcess {
  UniqueFd socket;
  pid_t process = -1;  // to be reaped by the caller
};

// Starts a process with a socket pair and sends it its limits. Does not wait: the process's first
// packet is an Answer, an error where it could not drop its privileges.
[[nodiscard]] Result<ChildProcess> start_child(const SandboxLimits& limits, const Spawn& spawn);

}  // namespace profd::sandbox
