#include "ctl/views/call_tree.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <tuple>
#include <utility>

#include <boost/unordered/unordered_flat_map.hpp>

#include "ctl/views/selected_stacks.h"

namespace profd {
namespace {

constexpr std::uint32_t kNoNode = 0xffffffff;

// A node in the order in which it came.
struct GrownNode {
  std::uint32_t parent = kNoNode;
  std::uint32_t step = 0;      // the group of frames, or of labels
  std::size_t label_keys = 0;  // of the table of labels; 0: a frame
  ObjectOfFrames object{};
  SampleValue self{};
  SampleValue total{};
};

class TreeGrower {
 public:
  TreeGrower(const Selection& selection, const TreeOptions& options)
      : selection_(selection),
        stacks_(selection),
        options_(options),
        frames_(group_frames(selection.samples(), {GroupKey::kFunction}, options.names)) {
    for (std::size_t keys = 1; keys <= options.by.size(); ++keys) {
      const auto last = options.by.begin() + static_cast<std::ptrdiff_t>(keys);
      labels_.push_back(group_labels(selection.samples(), {options.by.begin(), last}));
    }
  }

  CallTree grow() {
    const Samples& samples = selection_.samples();
    CallTree tree{.scope = scope_of(samples), .direction = options_.direction, .nodes = {}};
    for (const Samples::Row& row : samples.rows()) {
      if (!stacks_.read(row)) continue;
      tree.scope.shown.add(row.value);
      if (choose_steps()) add(row);
    }
    add_totals();
    sort_into(tree);
    return tree;
  }

 private:
  // The steps from the root on. False: the function is not in the stack.
  bool choose_steps() {
    const auto stack = stacks_.frames();
    if (options_.direction == TreeDirection::kFromOutermost) {
      steps_.assign(stack.begin(), stack.end());
      return true;
    }
    const auto frames = selection_.samples().frames();
    const auto outermost = std::ranges::find_if(
        stack, [&](std::uint32_t frame) { return options_.functions[frames[frame].function]; });
    if (outermost == stack.end()) return false;
    if (options_.direction == TreeDirection::kCallees) {
      steps_.assign(outermost, stack.end());
    } else {
      steps_.assign(stack.begin(), outermost + 1);
      std::ranges::reverse(steps_);
    }
    return true;
  }

  void add(const Samples::Row& row) {
    std::size_t depth = 0;
    for (const GroupTable& level : labels_) {
      enter(depth, level.of[row.labels], depth + 1);
      ++depth;
    }
    const std::size_t kept = std::min(path_.size() - depth, shared_steps());
    depth += kept;
    for (const std::uint32_t frame : std::span(steps_).subspan(kept)) {
      enter(depth++, frames_.of[frame], 0);
      nodes_[path_[depth - 1]].object.add(selection_.samples(), frame);
    }
    path_.resize(depth);
    if (!path_.empty()) nodes_[path_.back()].self.add(row.value);
  }

  // How many steps are those of the row before.
  [[nodiscard]] std::size_t shared_steps() const {
    return options_.direction == TreeDirection::kFromOutermost ? stacks_.shared() : 0;
  }

  // Each node comes after its parent.
  void add_totals() {
    for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
      node->total.add(node->self);
      if (node->parent != kNoNode) nodes_[node->parent].total.add(node->total);
    }
  }

  // Makes the node of the path at `depth` that of the step. Stacks with equal outer frames often
  // come one after the other, which saves the search.
  void enter(std::size_t depth, std::uint32_t step, std::size_t label_keys) {
    if (depth < path_.size() && nodes_[path_[depth]].step == step) return;
    path_.resize(depth);
    const std::uint32_t parent = depth == 0 ? kNoNode : path_.back();
    const auto added = static_cast<std::uint32_t>(nodes_.size());
    const std::uint64_t key = std::uint64_t{parent} << 32 | step;
    const std::uint32_t node = index_.try_emplace(key, added).first->second;
    if (node == added) nodes_.push_back({.parent = parent, .step = step, .label_keys = label_keys});
    path_.push_back(node);
  }

  [[nodiscard]] const Group& group_of(const GrownNode& node) const {
    return node.label_keys != 0 ? labels_[node.label_keys - 1].groups[node.step]
                                : frames_.groups[node.step];
  }

  void sort_into(CallTree& tree) const {
    std::vector<std::vector<std::uint32_t>> children(nodes_.size() + 1);
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      const std::uint32_t parent = nodes_[i].parent;
      children[parent == kNoNode ? nodes_.size() : parent].push_back(i);
    }
    for (auto& list : children) {
      std::ranges::sort(list, [this](std::uint32_t a, std::uint32_t b) {
        const auto key = [this](std::uint32_t i) {
          return std::tuple(-nodes_[i].total.cpu_ns, -nodes_[i].total.samples);
        };
        return key(a) != key(b) ? key(a) < key(b)
                                : group_of(nodes_[a]).name < group_of(nodes_[b]).name;
      });
    }
    struct Visit {
      std::uint32_t node = 0;
      std::size_t depth = 0;
      std::uint32_t parent = 0;
    };
    std::vector<Visit> left;
    const auto push = [&](const std::vector<std::uint32_t>& list, std::size_t depth,
                          std::uint32_t parent) {
      for (auto at = list.rbegin(); at != list.rend(); ++at) left.push_back({*at, depth, parent});
    };
    push(children.back(), 0, 0);
    while (!left.empty()) {
      const Visit visit = left.back();
      left.pop_back();
      const GrownNode& node = nodes_[visit.node];
      const auto place = static_cast<std::uint32_t>(tree.nodes.size());
      Group group = group_of(node);
      group.object = node.object.text(selection_.samples());
      tree.nodes.push_back({.group = std::move(group),
                            .is_label = node.label_keys != 0,
                            .depth = visit.depth,
                            .parent = visit.parent,
                            .self = node.self,
                            .total = node.total});
      push(children[visit.node], visit.depth + 1, place);
    }
  }

  const Selection& selection_;
  SelectedStacks stacks_;
  const TreeOptions& options_;
  std::vector<GroupTable> labels_;  // by the first key, by both
  GroupTable frames_;
  std::vector<std::uint32_t> steps_;  // frames, from the root on
  std::vector<GrownNode> nodes_;
  std::vector<std::uint32_t> path_;                                // of the last row
  boost::unordered_flat_map<std::uint64_t, std::uint32_t> index_;  // by parent and step
};

}  // namespace

CallTree make_tree(const Selection& selection, const TreeOptions& options) {
  return TreeGrower(selection, options).grow();
}

double CallTree::share() const {
  SampleValue sum;
  for (const TreeNode& node : nodes) {
    if (node.depth == 0) sum.add(node.total);
  }
  return scope.share_of(sum);
}

void prune(CallTree& tree, std::size_t max_nodes, double min_share) {
  const auto& nodes = tree.nodes;
  std::vector<std::uint32_t> by_size(nodes.size());
  for (std::uint32_t i = 0; i < by_size.size(); ++i) by_size[i] = i;
  // No node is larger than its parent, and of equal ones the parent comes first.
  std::ranges::stable_sort(by_size, [&](std::uint32_t a, std::uint32_t b) {
    const auto key = [&](std::uint32_t i) {
      return std::tuple(-nodes[i].total.cpu_ns, -nodes[i].total.samples, i);
    };
    return key(a) < key(b);
  });
  std::vector<bool> is_kept(nodes.size());
  std::size_t kept = 0;
  for (const std::uint32_t i : by_size) {
    if (kept == max_nodes || tree.scope.share_of(nodes[i].total) < min_share) break;
    is_kept[i] = true;
    ++kept;
  }
  std::vector<TreeNode> left;
  std::vector<std::uint32_t> places(nodes.size());
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    TreeNode& node = tree.nodes[i];
    if (is_kept[i]) {
      places[i] = static_cast<std::uint32_t>(left.size());
      if (node.depth != 0) node.parent = places[node.parent];
      left.push_back(std::move(node));
      continue;
    }
    tree.left_out_self.add(node.self);
    if (node.depth != 0 && is_kept[node.parent]) left[places[node.parent]].is_cut = true;
  }
  tree.left_out += nodes.size() - left.size();
  tree.nodes = std::move(left);
}

}  // namespace profd
