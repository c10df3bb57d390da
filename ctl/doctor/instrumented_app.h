// What profctl doctor says of a process's XRay instrumentation: whether its calls can be recorded.

#pragma once

#include <sys/types.h>

#include <optional>

#include "formats/api/check_report.h"

namespace profd {

// `program` is the file that it runs, borrowed. None: it is not instrumented, and has no part of
// profd's either.
[[nodiscard]] std::optional<CheckPoint> check_instrumentation(pid_t pid, int program);

}  // namespace profd
