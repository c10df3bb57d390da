// Call stacks with what was measured of them: a tree whose nodes are functions, each in the place
// it was called from.
//
// The root stands for the code around all that is known. When a call turns out to have been under
// way before the first record, the root becomes that call, and a new root is put above it: all that
// was found so far moves under it, at no cost.
//
// `seed` is random, and the same for trees that are merged: who writes the ids can't choose ones
// that make look-ups slow.

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
    std::uint32_t word = 0;    // the function's id, and above it 1 << Action of its records
    Index parent = kNone;      // of the root: none. May be a higher index than the node's own
    Index last_child = kNone;  // that was looked up
    Index next = kNone;        // sibling that was looked up after this one, the last time
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

  // The node of `function` as called from `parent`, where that can be guessed: the callee is the
  // one of the last time, or the one that followed it then. Else kNone.
  [[nodiscard]] Index likely_child(Index parent, std::uint32_t function) {
    const Index last = nodes_[parent].last_child;
    if (last == kNone) return kNone;
    if (nodes_[last].is_of(function)) return last;
    const Index next = nodes_[last].next;
    if (next == kNone || !nodes_[next].is_of(function)) return kNone;
    nodes_[parent].last_child = next;
    return next;
  }

  // The node of `function` as called from `parent`, made on first sight. kNone: it would be one
  // more than `max_nodes`.
  [[nodiscard]] Index child(Index parent, std::uint32_t function, std::size_t max_nodes);

  // The root was a call of `function` all the time. False: one more than `max_nodes`.
  bool root_becomes(std::uint32_t function, std::size_t max_nodes);

  // Adds another's calls and times, by stack. What finds no room is added to its caller; the number
  // of calls for which that was so is returned.
  std::uint64_t merge(const CallTree& other, std::size_t max_nodes);

  [[nodiscard]] Node& operator[](Index index) { return nodes_[index]; }
  [[nodiscard]] std::span<const Node> nodes() const { return nodes_; }

  // Frees all but a root.
  void clear();

 private:
  [[nodiscard]] std::size_t slot_of(Index parent, std::uint32_t function) const;
  void insert(Index node);
  void grow();

  std::vector<Node> nodes_;
  std::vector<Index> slots_;  // a hash table by (parent, function), at most half full; kNone: free
  std::uint64_t seed_;
  Index root_ = 0;
};

}  // namespace profd::xray
