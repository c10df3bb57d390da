// Samples as profile.proto, from which folded stacks and speedscope's files are made as well
// (formats/profile/stack_texts.h).
//
// The names, files, lines and labels of the samples are kept. Addresses, build ids and mangled
// names are not in the model: the locations of the profile have no address.

#pragma once

#include "ctl/views/samples.h"
#include "formats/profile/pprof_profile.h"

namespace profd {

[[nodiscard]] PprofProfile pprof_of_samples(const Samples& samples);

// Adds the samples of another source of the same event, and its duration, as pprof does.
void add_samples(const Samples& from, Samples& to);

}  // namespace profd
