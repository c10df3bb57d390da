// What another program writes, for verbs that ask one.

#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "formats/base/result.h"

namespace profd {

struct ProgramOutput {
  int status = -1;  // its exit status, or 128 and the signal that ended it
  std::string out;  // its standard output, at most 1 MiB of it
};

// Runs `arguments`, whose first is looked up in PATH, without input; its standard error goes to
// nowhere. kNotFound: there is no such program. kTimeout: it took longer and was killed.
[[nodiscard]] Result<ProgramOutput> output_of(std::vector<std::string> arguments,
                                              std::chrono::milliseconds limit);

}  // namespace profd
