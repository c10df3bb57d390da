// A part of a tree of calls, for a page that zooms into it: what is too small for a picture of the
// whole is not too small for one of a part.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ctl/views/call_tree.h"

namespace profd {

// A step of a path: the FNV-1a of a printable name.
[[nodiscard]] std::uint32_t zoom_step(std::string_view printable_name);
// The steps of a path, up to the first one that is no number.
[[nodiscard]] std::vector<std::uint32_t> zoom_steps(std::string_view path);

// Keeps the nodes on the way to one node, and the largest below it; at most `max_nodes` in all.
// `path` is what pathOf() of ctl/page/tree.js makes of the node: the FNV-1a of each printable name,
// in base 36, with dots between. A step that is not there ends it; empty: the whole tree.
void prune_around(CallTree& tree, std::string_view path, std::size_t max_nodes);

}  // namespace profd
