// Checks whether a caller may profile a target.
//
// The daemon may read every process, so it repeats the check that the kernel makes for the caller
// (PTRACE_MODE_READ_REALCREDS): the real, effective and saved ids of the process equal the
// caller's, and the process is dumpable, has no capabilities and is in profd's user namespace. The
// result holds at the time of the request. The kernel side checks again at every sample
// (Target::restrict_to), so a target that execs a set-uid program later is not sampled any more.
//
// Stateless; reads /proc; any thread.

#pragma once

#include <sys/types.h>

#include "daemon/service/caller.h"
#include "formats/api/start_request.h"
#include "formats/base/result.h"

namespace profd {

// Privileged callers may profile every target, but each pid must exist (kNotFound). Others may
// profile their own processes by pid, their own uid, and names and cgroups, of which the kernel
// side takes only their own processes; never all (kPermissionDenied). Pids are those of profd's PID
// namespace, so a caller in another one gives none (kInvalidArgument).
[[nodiscard]] Result<void> authorize_target(const Caller& caller, const TargetRequest& target);

// The same for one process. kPermissionDenied: it is another user's, has changed ids or
// capabilities, is in another user namespace, or is not dumpable.
[[nodiscard]] Result<void> authorize_process(const Caller& caller, pid_t pid);

}  // namespace profd
