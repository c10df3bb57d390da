// The calls of one thread. For stacks.cc only; stacks.h has the rules.

#pragma once

#include <cstdint>
#include <vector>

#include "formats/xray/call_tree.h"
#include "formats/xray/stacks.h"

namespace profd::xray {

// The state that the threads of a process share.
struct StacksShared {
  explicit StacksShared(const StacksOptions& given) : options(given), tree(given.seed) {}

  StacksOptions options;
  CallTree tree;  // ended segments, which get no more late roots
  Report report;
  std::size_t pending_nodes = 0;  // in the trees of the threads
  std::size_t granted_depth = 0;  // room in the stacks of all threads
};

// A handler of records. The tree holds the calls since the last gap. At the next gap, when no late
// root can be found any more, it is merged into the process's tree.
class ThreadStack : public Handler {
 public:
  ThreadStack(StacksShared& shared, ThreadId id);
  ThreadStack(const ThreadStack&) = delete;
  ThreadStack& operator=(const ThreadStack&) = delete;
  ~ThreadStack();

  [[nodiscard]] Decoded append(std::string_view records);
  void begin_buffer(const Format& format);
  void end_buffer(const Decoded& last, std::uint64_t bytes_left, Tail tail);

  // Ends the open calls, and begins a new segment.
  void end_segment();
  [[nodiscard]] const CallTree& tree() const { return tree_; }

  // Inlined with its callees into the decoder, since a call would take as long as the work.
  [[gnu::always_inline]] void on_function(Action action, std::uint32_t id, std::uint64_t ticks);
  void on_argument(std::uint64_t value);
  void on_event(const Event& event);
  void on_absolute_ticks(std::uint64_t ticks);

 private:
  static constexpr std::uint64_t kNoTicks = ~std::uint64_t{0};

  struct Call {
    std::uint32_t function = 0;
    CallTree::Index node = 0;
  };

  [[gnu::always_inline]] void charge(std::uint64_t ticks);
  void charge_irregular(std::uint64_t ticks);
  [[gnu::always_inline]] void enter(Action action, std::uint32_t function);
  [[gnu::always_inline]] void exit(Action action, std::uint32_t function);
  void exit_outer(Action action, std::uint32_t function);
  void exit_unknown(Action action, std::uint32_t function);
  [[gnu::always_inline]] void push(Action action, std::uint32_t function, CallTree::Index node);
  void pop();
  [[nodiscard]] bool is_empty() const { return top_ == stack_.data(); }
  [[nodiscard]] std::size_t open_calls() const {
    return static_cast<std::size_t>(top_ - stack_.data());
  }
  void clear_stack();
  [[nodiscard]] CallTree::Index add_node(CallTree::Index parent, std::uint32_t function);
  [[nodiscard]] std::size_t max_nodes() const;
  bool may_be_deeper();
  void flush_counts();

  StacksShared& shared_;
  ThreadId id_;
  Listener* listener_;
  Format format_;
  Position position_;
  CallTree tree_;
  // The open calls, outermost first, behind an element for the root. Its size is the granted depth.
  std::vector<Call> stack_;
  Call* top_;                      // the innermost open call
  Call* last_;                     // the last element of stack_
  std::uint64_t too_deep_ = 0;     // open calls above the stack that have no element
  std::uint64_t last_ticks_;       // of the previous record; kNoTicks: none in this segment
  std::uint64_t first_ticks_ = 0;  // of the segment
  std::uint64_t leap_ticks_ = 0;   // the last forward jump of the clock; 0: none
  CallTree::Index leap_node_ = 0;  // the node that its time was added to
  std::uint64_t late_roots_ = 0;   // in the segment
  std::uint64_t shown_ticks_ = 0;  // the latest time that the listener got
  std::uint64_t entries_ = 0;      // not yet in the report, like the next two
  std::uint64_t exits_ = 0;
  std::uint64_t tail_exits_ = 0;
  std::uint64_t typed_events_ = 0;  // in the buffer
};

}  // namespace profd::xray
