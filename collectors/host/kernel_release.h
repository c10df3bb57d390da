// Which kernel runs.

#pragma once

#include <string>

namespace profd {

// As `uname -r`.
[[nodiscard]] std::string kernel_release();

}  // namespace profd
