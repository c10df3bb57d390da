// The canonical order of a profile's entries. It follows from their content alone, so that equal
// profiles become equal files, whatever order they were built in.
//
// Texts, functions, mappings and locations are sorted by content; samples by their labels and then
// by their stack from the root on, so that neighbours share most frames and pack well. Only the
// first mapping, the title, keeps its place. Entries that no sample uses are left out, and so are
// samples whose values are all 0, as pprof's merge does.

#pragma once

#include <deque>
#include <string>

#include "formats/profile/pprof_profile.h"
#include "formats/profile/pprof_tables.h"

namespace profd {

struct OrderedPprof {
  PprofTables tables;  // borrows the profile and `repaired`
  std::deque<std::string> repaired;
};

[[nodiscard]] OrderedPprof order_pprof(const PprofProfile& profile);

}  // namespace profd
