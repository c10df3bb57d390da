// Samples as profile.proto, from which folded stacks and speedscope's files are made as well
// (formats/profile/stack_texts.h).
//
// The names, files, lines, labels and times of the samples are kept, and the start and the losses
// of their recording, which stand in the own data as in a profile of the daemon. Addresses, build
// ids and mangled names are not in the model: the locations of the profile have no address.

#pragma once

#include "ctl/views/samples.h"
#include "formats/profile/pprof_profile.h"

namespace profd {

[[nodiscard]] PprofProfile pprof_of_samples(const Samples& samples);

// Adds the samples of another source of the same event, its duration, as pprof does, and its
// losses. The earlier start counts. Without the times of one, there are no times.
void add_samples(const Samples& from, Samples& to);

}  // namespace profd
