// The target of a command line as labels of samples.

#pragma once

#include "ctl/views/samples.h"
#include "formats/api/start_request.h"
#include "formats/base/result.h"

namespace profd {

// Removes the samples of all other processes. kNotFound: none is left. kInvalidArgument: by cgroup,
// which no label has.
[[nodiscard]] Result<void> keep_target(const TargetRequest& target, Samples& samples);

}  // namespace profd
