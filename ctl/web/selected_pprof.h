// What a target and filters leave of a profile.proto that a daemon made, with all that it says of
// its code: addresses, mappings, build ids and mangled names, which samples (ctl/views) do not
// have.

#pragma once

#include <string>
#include <string_view>

#include "ctl/views/selection.h"
#include "formats/api/start_request.h"
#include "formats/base/result.h"

namespace profd {

// `file` is gzip or plain; the result is gzip. Samples of other processes than those of `target`,
// which has no cgroups (empty: all are of it), and samples and frames that the patterns leave out
// are not in it, nor is what only they use. Samples that then have one stack are one. Field 1000
// and the times of the samples are left out: they are of the whole. kNotFound: no sample is left.
[[nodiscard]] Result<std::string> selected_pprof(std::string_view file, const TargetRequest& target,
                                                 const SelectionPatterns& patterns);

}  // namespace profd
