// The canonical order of a profile's entries. It follows from their content alone, so that equal
// profiles become equal files, whatever order they were built in.
//
// Mappings are sorted by content; only the first one, the title, keeps its place. Locations are
// sorted by mapping and address, but the 127 that most frames have stand before the others. A
// function has the place of its first location, and its texts follow each other; the other texts
// are sorted. Samples are sorted by their labels and then by their stack from the root on. So
// neighbours are alike: on a host that compiles, the packed file is 5 % smaller than with functions
// and texts sorted by name. Entries that no sample uses are left out, and so are samples whose
// values are all 0, as pprof's merge does.

#pragma once

#include <deque>
#include <string>

#include "formats/profile/pprof_profile.h"
#include "formats/profile/pprof_tables.h"

namespace profd {

struct OrderedPprof {
  PprofTables tables;                // borrows the profile and `repaired`
  std::deque<std::string> repaired;  // and the times
};

[[nodiscard]] OrderedPprof order_pprof(const PprofProfile& profile);

}  // namespace profd
