// One thread's calls: for xray_stacks.cc, whose header has the rules.

#pragma once

#include <cstdint>
#include <vector>

#include "formats/xray/call_tree.h"
#include "formats/xray/stacks.h"

namespace profd::xray {

// What the threads of a process share.
struct StacksShared {
  explicit StacksShared(const StacksOptions& given) : options(given), tree(given.seed) {}

  StacksOptions options;
  CallTree tree;  // of what can get no more late roots
  Report report;
  std::size_t pending_nodes = 0;  // in the trees of threads
  std::size_t granted_depth = 0;  // of all threads
};

// A handler of records. The tree holds what was found since the last gap; it is merged into the
// process's at the next one, when no late root can come any more.
class ThreadStack : public Handler {
 public:
  ThreadStack(StacksShared& shared, ThreadId id);
  ThreadStack(const ThreadStack&) = delete;
  ThreadStack& operator=(const ThreadStack&) = delete;
  ~ThreadStack();

  [[nodiscard]] Decoded append(std::string_view records);
  void begin_buffer(const Format& format);
  void end_buffer(const Decoded& last, std::uint64_t bytes_left, Tail tail);

  // Closes what is open, and begins a new segment.
  void end_segment();
  [[nodiscard]] const CallTree& tree() const { return tree_; }

  // By order, with what it calls: a call of it takes as long as the rest of its work.
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
  void charge_oddly(std::uint64_t ticks);
  [[gnu::always_inline]] void enter(Action action, std::uint32_t function);
  [[gnu::always_inline]] void exit(Action action, std::uint32_t function);
  void exit_outer(Action action, std::uint32_t function);
  void exit_unknown(Action action, std::uint32_t function);
  [[gnu::always_inline]] void push(Action action, std::uint32_t function, CallTree::Index node);
  void pop();
  void note(CallTree::Index node, Action action);
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
  // Outermost first, behind one that stands for the root; as many as are granted.
  std::vector<Call> stack_;
  Call* top_;                      // the innermost
  Call* last_;                     // of stack_
  std::uint64_t too_deep_ = 0;     // open calls above the stack that are not kept
  std::uint64_t last_ticks_;       // of the record before; kNoTicks: none in this segment
  std::uint64_t first_ticks_ = 0;  // of the segment
  std::uint64_t leap_ticks_ = 0;   // the last leap of the clock; 0: none
  CallTree::Index leap_node_ = 0;  // whose time it became
  std::uint64_t late_roots_ = 0;   // of the segment
  std::uint64_t shown_ticks_ = 0;  // to the listener, the latest
  std::uint64_t entries_ = 0;      // not yet in the report, and the next two
  std::uint64_t exits_ = 0;
  std::uint64_t tail_exits_ = 0;
  std::uint64_t typed_events_ = 0;  // in the buffer
};

}  // namespace profd::xray
