// A flame graph as one HTML file, which needs no network: the page (ctl/page) with the tree in it.
//
// A Content-Security-Policy allows the file's own script and style alone, by their hashes. The tree
// is data, not script, and no name in it can end its element.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "ctl/views/call_tree.h"

namespace profd {

// The tree is pruned to as many of its largest nodes as fit.
inline constexpr std::size_t kMaxFlameNodes = 100'000;
inline constexpr std::size_t kMaxFlameBytes = 5'000'000;

// At most kMaxFlameBytes, for which further nodes of the tree are removed where names are long.
[[nodiscard]] std::string flame_html(CallTree& tree, std::string_view title);

// The modules of the page as one script: the file has no others to import.
[[nodiscard]] std::string joined_modules();

}  // namespace profd
