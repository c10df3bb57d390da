// A flame graph as a picture that needs no script: SVG, the root at the bottom. Each box has its
// whole name and its numbers as title, which viewers show where the pointer is.

#pragma once

#include <string>
#include <string_view>

#include "ctl/views/call_tree.h"

namespace profd {

// Nodes that would be narrower than a quarter of a pixel are removed from the tree.
[[nodiscard]] std::string flame_svg(CallTree& tree, std::string_view title);

}  // namespace profd
