// The target of a command line as labels of samples.

#pragma once

#include <vector>

#include "ctl/views/samples.h"
#include "formats/api/start_request.h"
#include "formats/base/result.h"

namespace profd {

// kInvalidArgument: by cgroup, which no label has.
[[nodiscard]] Result<void> check_target_of_labels(const TargetRequest& target);

// By label set of the samples: whether it is of the target, which was checked.
[[nodiscard]] std::vector<bool> labels_of_target(const TargetRequest& target,
                                                 const Samples& samples);

// kNotFound: no sample is of the target.
[[nodiscard]] Error no_sample_of(const TargetRequest& target);

// Removes the samples of all other processes. kNotFound: none is left. kInvalidArgument: by cgroup.
[[nodiscard]] Result<void> keep_target(const TargetRequest& target, Samples& samples);

}  // namespace profd
