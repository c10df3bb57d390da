// The sums of each function of a whole tree: of the nodes that prune() leaves they would be too
// small.

#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>

#include "ctl/views/call_tree.h"
#include "ctl/views/samples.h"

namespace profd {

struct FunctionSum {
  SampleValue self{};
  SampleValue total{};   // of a recursive function, each sample counts once
  std::size_t open = 0;  // how many nodes on the way to the present one have the function
};

// By name, as the tree has it. Labels have none.
using FunctionSums = std::unordered_map<std::string, FunctionSum>;

// `tree` has whole stacks, and was not pruned.
[[nodiscard]] FunctionSums sums_of_functions(const CallTree& tree);

}  // namespace profd
