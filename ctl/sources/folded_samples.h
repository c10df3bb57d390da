// The samples of folded stacks: one line "outermost;...;innermost 12" for each stack, as profctl,
// perf's stackcollapse scripts, py-spy and others write them.
//
// The first frame of some writers, profctl too, is the command name of the process; it is a frame
// here as well, since other writers have none. The ends "_[k]" and "_[j]" of names say that code is
// of the kernel or of a runtime, and are removed.

#pragma once

#include <string_view>

#include "ctl/views/samples.h"
#include "formats/base/result.h"

namespace profd {

// kMalformed, with the number of the line: it has no count.
[[nodiscard]] Result<Samples> samples_of_folded(std::string_view text);

}  // namespace profd
