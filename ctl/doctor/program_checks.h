// What profctl doctor checks of the file of a program. Another user may have written it, so it is
// read in a child process (program_child.h) and nowhere else.

#pragma once

#include <optional>

#include "formats/api/check_report.h"

namespace profd {

// `program` is borrowed.
[[nodiscard]] CheckReport check_program(int program);

// Whether the calls of a process can be recorded by XRay. `runs_library`: it has the thread of
// libprofd_xray; `program` is its executable, borrowed. Nothing: it is not instrumented and does
// not link libprofd_xray.
[[nodiscard]] std::optional<CheckPoint> check_instrumentation(bool runs_library, int program);

}  // namespace profd
