// What profctl doctor looks at of one process: what its profile can show, and why not more.

#pragma once

#include <cstdint>

#include "formats/api/check_report.h"
#include "formats/base/result.h"

namespace profd {

// With the caller's rights. kNotFound: there is no such process.
[[nodiscard]] Result<CheckReport> check_process(std::uint32_t pid);

// Of a program's file; `fd` is borrowed.
[[nodiscard]] CheckReport check_program(int fd);

}  // namespace profd
