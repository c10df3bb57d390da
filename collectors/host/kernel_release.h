// The release of the running kernel.

#pragma once

#include <string>

namespace profd {

// As `uname -r`.
[[nodiscard]] std::string kernel_release();

}  // namespace profd
