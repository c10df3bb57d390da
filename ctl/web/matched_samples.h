// What a search of the page matches, of all stacks: the page has too few nodes of a large tree.

#pragma once

#include <string>
#include <string_view>

#include "ctl/views/samples.h"
#include "ctl/views/selection.h"
#include "ctl/views/short_names.h"

namespace profd {

// The samples with a function whose printable name, in this form, the regular expression is found
// in; the expression was checked. Each sample counts once. `zoom` is a path as of zoomed_tree.h:
// only the samples of that node count, or of the last one of the path that is there.
[[nodiscard]] SampleValue matched_samples(const Selection& selection, NameForm names,
                                          const std::string& pattern, std::string_view zoom);

}  // namespace profd
