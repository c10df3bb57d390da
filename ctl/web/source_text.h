// The lines of a function with their samples, and with their text where the source is there.
//
//     {"all":VALUE,"shown":VALUE,"has_cpu_time","lines":[{"file","line","self":VALUE,"total":VALUE,"text"}]}
//
// Lines without samples stand between those that have some. `text` is absent where the file can't
// be read: by the caller's rights, at the path that the debug information has.

#pragma once

#include <string>
#include <vector>

#include "ctl/views/selection.h"

namespace profd {

[[nodiscard]] std::string source_text_json(const Selection& selection,
                                           const std::vector<bool>& functions);

}  // namespace profd
