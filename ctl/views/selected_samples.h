// The samples that a view shows, as samples of their own, for files with what the view has.

#pragma once

#include "ctl/views/samples.h"
#include "ctl/views/selection.h"

namespace profd {

// A copy without the samples and frames that are not shown, and without the texts, functions and
// labels that no other sample has. What is shown keeps its values, labels, times and locations; a
// location with inlined functions loses those that are hidden. The event, start, duration and
// losses stay those of all samples.
[[nodiscard]] Samples selected_samples(const Selection& selection);

// Whether there is such a sample.
[[nodiscard]] bool shows_any(const Selection& selection);

}  // namespace profd
