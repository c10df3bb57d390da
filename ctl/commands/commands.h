// All of profctl behind main().

#pragma once

#include <string>
#include <vector>

#include "ctl/output/console.h"

namespace profd {

// Parses the command line (`arguments` are without the name of the program) and runs its
// subcommand. Returns the exit code, after every message was printed.
[[nodiscard]] int run_profctl(const std::vector<std::string>& arguments, const Console& console);

}  // namespace profd
