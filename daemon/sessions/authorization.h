// Who may profile what.
//
// The daemon may read every process, so it has to rebuild the check that the kernel would have made
// for the caller: PTRACE_MODE_READ_REALCREDS, that is, real, effective and saved ids of the process
// all equal the caller's, and the process is dumpable, has no capabilities and is in profd's user
// namespace. What is decided here holds for the moment of
// the request; the kernel side decides again at every sample (Target::restrict_to), so a target
// that execs a set-uid program later is no longer taken.
//
// Stateless; reads /proc; any thread.

#pragma once

#include <sys/types.h>

#include "daemon/service/caller.h"
#include "formats/api/start_request.h"
#include "formats/base/result.h"

namespace profd {

// root and members of group profd: every target, but each pid must be there (kNotFound). Anyone
// else: their own processes by pid, their own uid; names and cgroups, which the kernel side cuts
// down to their own; never all (kPermissionDenied).
[[nodiscard]] Result<void> authorize_target(const Caller& caller, const TargetRequest& target);

// The rule for one process. kNotFound: no such process; kPermissionDenied: another user's, one with
// changed ids, one with capabilities or in another user namespace, or one that is not dumpable.
[[nodiscard]] Result<void> authorize_process(const Caller& caller, pid_t pid);

}  // namespace profd
