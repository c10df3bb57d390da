// What profctl doctor checks of one process: what its profiles can show, and what they lack.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "formats/api/check_report.h"
#include "formats/base/result.h"

namespace profd {

// Uses the rights of the caller. kNotFound: there is no such process.
[[nodiscard]] Result<CheckReport> check_process(std::uint32_t pid);

// Checks the file of a program; `fd` is borrowed.
[[nodiscard]] CheckReport check_program(int fd);

// Whether the calls of the process can be recorded by XRay. `program` is its executable, borrowed.
// Nothing: it is not instrumented and does not link libprofd_xray.
[[nodiscard]] std::optional<CheckPoint> check_instrumentation(pid_t pid, int program);

}  // namespace profd
