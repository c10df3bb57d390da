// Call stacks with their numbers of calls and their times: a tree whose nodes are functions. A
// node's parent is its caller.
//
// The root stands for the code outside of all recorded calls. When an exit shows that a call was
// active before the first record, the root becomes that call and gets a new root above it, so that
// everything found so far moves under the call at no cost.
//
// `seed` is random, and the same for trees that are merged, so that the writer of the ids can't
// choose ids that make look-ups slow.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "formats/xray/fdr_format.h"

namespace profd::xray {

class CallTree {
 public:
  using Index = std::uint32_t;
  static constexpr Index kNone = ~Index{0};

  static constexpr unsigned kActionBits = 32 - kFunctionIdBits;
  static_assert(kActions <= kActionBits);

  struct Node {
    std::uint32_t word = 0;    // the function's id; in the high bits 1 << Action of its records
    Index parent = kNone;      // kNone for the root. May be higher than the node's own index
    Index last_child = kNone;  // the child that was looked up last
    Index next = kNone;        // the sibling that was last looked up right after this node
    std::uint64_t calls = 0;   // entries
    std::uint64_t self_ticks = 0;

    [[nodiscard]] std::uint32_t function() const { return word & kMaxFunctionId; }
    [[nodiscard]] std::uint8_t actions() const {
      return static_cast<std::uint8_t>(word >> kFunctionIdBits);
    }
    [[nodiscard]] bool is_of(std::uint32_t id) const { return (word ^ id) << kActionBits == 0; }
    void note(Action action) { word |= 1U << (kFunctionIdBits + static_cast<unsigned>(action)); }
  };
  static_assert(sizeof(Node) == 32);

  explicit CallTree(std::uint64_t seed);

  [[nodiscard]] Index root() const { return root_; }

  // The node of `function` called from `parent`, if it is the callee of the last call or the one
  // that followed it the time before; else kNone, and child() finds it.
  [[nodiscard]] Index likely_child(Index parent, std::uint32_t function) {
    const Index last = nodes_[parent].last_child;
    if (last == kNone) return kNone;
    if (nodes_[last].is_of(function)) return last;
    const Index next = nodes_[last].next;
    if (next == kNone || !nodes_[next].is_of(function)) return kNone;
    nodes_[parent].last_child = next;
    return next;
  }

  // The node of `function` called from `parent`, which is added if it is new. kNone: the tree would
  // have more than `max_nodes`.
  [[nodiscard]] Index child(Index parent, std::uint32_t function, std::size_t max_nodes);

  // Makes the root a call of `function`, under a new root. False: the tree would have more than
  // `max_nodes`.
  bool root_becomes(std::uint32_t function, std::size_t max_nodes);

  // Adds the calls and times of another tree, by stack. The time of a stack that would exceed
  // `max_nodes` is added to its caller; returns the number of such calls.
  std::uint64_t merge(const CallTree& other, std::size_t max_nodes);

  [[nodiscard]] Node& operator[](Index index) { return nodes_[index]; }
  [[nodiscard]] std::span<const Node> nodes() const { return nodes_; }

  // Removes all nodes but one root, and frees their memory.
  void clear();

 private:
  [[nodiscard]] std::size_t slot_of(Index parent, std::uint32_t function) const;
  void insert(Index node);
  void grow();

  std::vector<Node> nodes_;
  std::vector<Index> slots_;  // hash table by (parent, function), at most half full; kNone: free
  std::uint64_t seed_;
  Index root_ = 0;
};

}  // namespace profd::xray
