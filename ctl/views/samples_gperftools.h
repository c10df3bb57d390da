// Samples as a gperftools profile, which has addresses and no names: each name of a function gets
// an address of its own, and an image beside the profile names it. Both pprofs find the names
// there.

#pragma once

#include <string>

#include "ctl/views/samples.h"
#include "formats/profile/profile.h"

namespace profd {

struct ImagedProfile {
  Profile profile;    // of one mapping, whose path the caller sets
  std::string image;  // an ELF file: what is mapped
};

// Inlined functions are callers and callees like others. Lines and labels are lost, as the format
// has none. The period is that of all samples on average. Of blocks it is a microsecond, and the
// counts are their times; what is below one is carried from row to row.
[[nodiscard]] ImagedProfile gperftools_of_samples(const Samples& samples);

}  // namespace profd
