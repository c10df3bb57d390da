// Stacks merged into a tree: from the outermost function to the innermost (--tree), or around one
// function: what it calls (--callees) and what calls it (--callers).
//
// In a tree of callees or callers a recursive function stands at the root with its outermost call,
// so that each sample counts once; recursive calls are below it, as callees.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ctl/views/group_key.h"
#include "ctl/views/report.h"
#include "ctl/views/selection.h"

namespace profd {

enum class TreeDirection : std::uint8_t {
  kFromOutermost,  // whole stacks
  kCallees,        // from the function inwards
  kCallers,        // from the function outwards
};

struct TreeOptions {
  TreeDirection direction = TreeDirection::kFromOutermost;
  std::vector<bool> functions{};  // of kCallees and kCallers; by number of the function
  std::vector<GroupKey> by{};  // labels that stand above the outermost function, each at its level
  NameForm names = NameForm::kShort;
};

struct TreeNode {
  Group group;
  bool is_label = false;  // of TreeOptions::by; else a function
  std::size_t depth = 0;  // 0: a root
  std::uint32_t parent = 0;
  SampleValue self{};  // of stacks that end here; of callers, those whose outermost function it is
  SampleValue total{};
  bool is_cut = false;  // prune() has removed nodes below it
};

struct CallTree {
  ViewScope scope;
  TreeDirection direction = TreeDirection::kFromOutermost;
  std::vector<TreeNode> nodes;  // each before its children; the largest child first
  std::size_t left_out = 0;     // by prune()
  SampleValue left_out_self{};  // of these, together

  // Percent of all samples that are in the tree.
  [[nodiscard]] double share() const;
};

[[nodiscard]] CallTree make_tree(const Selection& selection, const TreeOptions& options);

// Keeps the largest nodes, at most `max_nodes`, of those that have `min_share` percent of all
// samples at least.
void prune(CallTree& tree, std::size_t max_nodes, double min_share);

}  // namespace profd
