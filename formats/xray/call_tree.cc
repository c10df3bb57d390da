#include "formats/xray/call_tree.h"

#include <algorithm>
#include <utility>

#include "formats/base/seeded_hash.h"

namespace profd::xray {
namespace {

constexpr std::size_t kFirstSlots = 16;  // small, since 65,536 threads may have a tree each

}  // namespace

CallTree::CallTree(std::uint64_t seed) : seed_(seed) { clear(); }

void CallTree::clear() {
  nodes_.assign(1, Node{});
  nodes_.shrink_to_fit();
  slots_.assign(kFirstSlots, kNone);
  slots_.shrink_to_fit();
  root_ = 0;
}

std::size_t CallTree::slot_of(Index parent, std::uint32_t function) const {
  SeededHash hash(seed_);
  hash.add(std::uint64_t{parent} << 32 | function);
  std::size_t slot = hash.value() & (slots_.size() - 1);
  while (slots_[slot] != kNone) {
    const Node& node = nodes_[slots_[slot]];
    if (node.is_of(function) && node.parent == parent) break;
    slot = (slot + 1) & (slots_.size() - 1);
  }
  return slot;
}

void CallTree::insert(Index node) {
  slots_[slot_of(nodes_[node].parent, nodes_[node].function())] = node;
}

void CallTree::grow() {
  slots_.assign(slots_.size() * 2, kNone);
  for (Index node = 0; node < nodes_.size(); ++node) {
    if (node != root_) insert(node);
  }
}

CallTree::Index CallTree::child(Index parent, std::uint32_t function, std::size_t max_nodes) {
  const std::size_t slot = slot_of(parent, function);
  Index found = slots_[slot];
  if (found == kNone) {
    if (nodes_.size() >= std::min<std::size_t>(max_nodes, kNone)) return kNone;
    found = static_cast<Index>(nodes_.size());
    nodes_.push_back({.word = function, .parent = parent});
    slots_[slot] = found;
    if (nodes_.size() * 2 > slots_.size()) grow();
  }
  const Index last = std::exchange(nodes_[parent].last_child, found);
  if (last != kNone) nodes_[last].next = found;
  return found;
}

bool CallTree::root_becomes(std::uint32_t function, std::size_t max_nodes) {
  if (nodes_.size() >= std::min<std::size_t>(max_nodes, kNone)) return false;
  const auto above = static_cast<Index>(nodes_.size());
  nodes_.push_back({.last_child = root_});
  const Index below = root_;
  nodes_[below].word = function;
  nodes_[below].parent = above;
  root_ = above;
  if (nodes_.size() * 2 > slots_.size()) {
    grow();
  } else {
    insert(below);
  }
  return true;
}

std::uint64_t CallTree::merge(const CallTree& other, std::size_t max_nodes) {
  std::uint64_t left_out = 0;
  std::vector<Index> here(other.nodes_.size(), kNone);
  here[other.root_] = root_;
  std::vector<Index> path;
  for (Index node = 0; node < other.nodes_.size(); ++node) {
    // Callers come first. A root that became a call has a higher index than its callees.
    for (Index at = node; here[at] == kNone; at = other.nodes_[at].parent) path.push_back(at);
    for (; !path.empty(); path.pop_back()) {
      const Node& added = other.nodes_[path.back()];
      const Index parent = here[added.parent];
      const Index found = child(parent, added.function(), max_nodes);
      here[path.back()] = found == kNone ? parent : found;
      if (found == kNone) {
        left_out += added.calls;
      } else {
        nodes_[found].calls += added.calls;
        nodes_[found].word |= added.word;
      }
    }
    nodes_[here[node]].self_ticks += other.nodes_[node].self_ticks;
  }
  return left_out;
}

}  // namespace profd::xray
