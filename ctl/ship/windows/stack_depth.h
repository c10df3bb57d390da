// Bounds the depth of stacks, for engines that take no deeper ones. profd has stacks of up to 1,151
// frames.

#pragma once

#include <cstddef>

#include "formats/profile/pprof_tables.h"

namespace profd {

// A deeper stack than `most`, which is at least 1, keeps its innermost frames, since the leaf has
// the self time. Its outermost frame then is "[frames left out]", a name that hour files have too.
// Values and labels stay.
void limit_depth(PprofTables& tables, std::size_t most);

}  // namespace profd
