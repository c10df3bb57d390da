#include "ctl/views/function_sums.h"

#include <vector>

namespace profd {

FunctionSums sums_of_functions(const CallTree& tree) {
  FunctionSums sums;
  std::vector<FunctionSum*> path;  // null: a label
  for (const TreeNode& node : tree.nodes) {
    for (; path.size() > node.depth; path.pop_back()) {
      if (path.back() != nullptr) --path.back()->open;
    }
    FunctionSum* const sum = node.is_label ? nullptr : &sums[node.group.name];
    path.push_back(sum);
    if (sum == nullptr) continue;
    sum->self.add(node.self);
    if (sum->open++ == 0) sum->total.add(node.total);
  }
  return sums;
}

}  // namespace profd
