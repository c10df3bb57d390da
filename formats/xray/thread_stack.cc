#include "formats/xray/thread_stack.h"

#include <algorithm>
#include <utility>

namespace profd::xray {

ThreadStack::ThreadStack(StacksShared& shared, ThreadId id)
    : shared_(shared),
      id_(id),
      listener_(shared.options.listener),
      format_(shared.options.format),
      tree_(shared.options.seed),
      stack_(1),
      last_ticks_(kNoTicks) {
  ++shared_.pending_nodes;
  last_ = stack_.data();
  clear_stack();
}

ThreadStack::~ThreadStack() {
  shared_.pending_nodes -= tree_.nodes().size();
  shared_.granted_depth -= stack_.size() - 1;
}

void ThreadStack::clear_stack() {
  top_ = stack_.data();
  top_->node = tree_.root();
}

// The functions that each record passes are defined before append(), so that they are inlined into
// decode_records().

// The time since the previous record counts for the innermost call.
inline void ThreadStack::charge(std::uint64_t ticks) {
  if (ticks < last_ticks_) [[unlikely]] {
    charge_irregular(ticks);
  } else {
    tree_[top_->node].self_ticks += ticks - last_ticks_;
    last_ticks_ = ticks;
  }
  if (listener_ != nullptr) [[unlikely]]
    shown_ticks_ = std::max(shown_ticks_, ticks);
}

inline void ThreadStack::pop() {
  if (listener_ != nullptr) [[unlikely]] {
    listener_->on_exit(id_, top_->function, shown_ticks_);
  }
  --top_;
}

inline void ThreadStack::push(Action action, std::uint32_t function, CallTree::Index node) {
  if (node == CallTree::kNone) [[unlikely]] {
    shared_.report.count(Issue::kTooManyStacks);
    node = top_->node;
  } else {
    ++tree_[node].calls;
    tree_[node].note(action);
  }
  *++top_ = {function, node};
  if (listener_ != nullptr) [[unlikely]] {
    listener_->on_enter(id_, function, shown_ticks_);
  }
}

inline void ThreadStack::enter(Action action, std::uint32_t function) {
  if (top_ == last_ && !may_be_deeper()) [[unlikely]] {
    ++too_deep_;
    shared_.report.count(Issue::kTooDeep);
    return;
  }
  CallTree::Index node = tree_.likely_child(top_->node, function);
  if (node == CallTree::kNone) [[unlikely]]
    node = add_node(top_->node, function);
  push(action, function, node);
}

inline void ThreadStack::exit(Action action, std::uint32_t function) {
  if (too_deep_ != 0) [[unlikely]] {
    --too_deep_;
  } else if (top_->function == function && !is_empty()) [[likely]] {
    tree_[top_->node].note(action);
    pop();
  } else {
    exit_outer(action, function);
  }
}

inline void ThreadStack::on_function(Action action, std::uint32_t id, std::uint64_t ticks) {
  charge(ticks);
  if (action == Action::kEnter || action == Action::kEnterWithArguments) {
    ++entries_;
    enter(action, id);
    return;
  }
  ++exits_;
  if (action == Action::kTailExit) [[unlikely]]
    ++tail_exits_;
  exit(action, id);
}

Decoded ThreadStack::append(std::string_view records) {
  const Decoded decoded = decode_records(format_, records, position_, *this);
  flush_counts();
  shared_.report.bytes += decoded.bytes;
  return decoded;
}

void ThreadStack::begin_buffer(const Format& format) {
  format_ = format;
  position_.to_skip = 0;
  position_.has_ticks = position_.has_ticks && format.version == 1;
  typed_events_ = 0;
  ++shared_.report.buffers;
}

void ThreadStack::end_buffer(const Decoded& last, std::uint64_t bytes_left, Tail tail) {
  Report& report = shared_.report;
  // Each typed event has cut 16 bytes off the end of the buffer (fdr_format.h).
  const bool lost_tail = tail == Tail::kByRuntime && format_.version == 5 && typed_events_ != 0;
  // A wrong size of a payload hides the records behind it.
  const bool reaches_beyond = last.stop == Stop::kOutOfBytes && tail != Tail::kCut && !lost_tail &&
                              (position_.to_skip != 0 || bytes_left >= kMetadataBytes);
  const bool is_malformed = last.stop == Stop::kMalformed || reaches_beyond;
  if (is_malformed) {
    report.count(Issue::kMalformedBuffer);
    report.count(Issue::kMalformedBytes, bytes_left);
    position_.has_ticks = false;
  } else if (last.stop == Stop::kOutOfBytes && (bytes_left != 0 || position_.to_skip != 0)) {
    report.count(Issue::kCutRecord);
  }
  if (is_malformed || tail == Tail::kCut || lost_tail) {
    report.count(Issue::kGap);
    end_segment();
  }
}

void ThreadStack::end_segment() {
  shared_.report.count(Issue::kUnclosed, open_calls() + too_deep_);
  too_deep_ = 0;
  while (!is_empty()) pop();
  shared_.pending_nodes -= tree_.nodes().size() - 1;
  if (shared_.tree.nodes().size() == 1 && shared_.tree.nodes().front().self_ticks == 0) {
    std::swap(shared_.tree, tree_);  // avoids a copy of the first tree, which may be the only one
  } else {
    shared_.report.count(Issue::kTooManyStacks,
                         shared_.tree.merge(tree_, shared_.options.max_nodes));
  }
  tree_.clear();
  clear_stack();
  last_ticks_ = kNoTicks;
  leap_ticks_ = 0;
  leap_node_ = 0;
  late_roots_ = 0;
}

void ThreadStack::flush_counts() {
  Report& report = shared_.report;
  report.records += entries_ + exits_;
  report.entries += entries_;
  report.exits += exits_;
  report.tail_exits += tail_exits_;
  entries_ = exits_ = tail_exits_ = 0;
}

void ThreadStack::on_argument(std::uint64_t value) {
  ++shared_.report.arguments;
  if (listener_ != nullptr) listener_->on_argument(id_, value);
}

void ThreadStack::on_event(const Event& event) {
  if (format_.version == 5) charge(event.ticks);  // earlier versions do not order events by time
  if (event.is_typed) {
    ++shared_.report.typed_events;
    ++typed_events_;
  } else {
    ++shared_.report.custom_events;
  }
  if (listener_ == nullptr) return;
  Event shown = event;
  shown.ticks = std::max(shown_ticks_, event.ticks);
  listener_->on_event(id_, shown);
}

// A malformed time can add years to a call. The next absolute time, which is earlier, reveals it,
// and charge_irregular() takes the jump back.
void ThreadStack::on_absolute_ticks(std::uint64_t ticks) {
  constexpr std::uint64_t kLeap = std::uint64_t{1} << 32;  // deltas are smaller
  if (last_ticks_ == kNoTicks || ticks < last_ticks_ || ticks - last_ticks_ < kLeap) return;
  leap_ticks_ = ticks - last_ticks_;
  leap_node_ = top_->node;
}

void ThreadStack::charge_irregular(std::uint64_t ticks) {
  if (!position_.has_ticks) {
    shared_.report.count(Issue::kNoTime);
    return;
  }
  if (last_ticks_ == kNoTicks) {
    first_ticks_ = ticks;
  } else {
    shared_.report.count(Issue::kClockStep);
    std::uint64_t& leapt = tree_[leap_node_].self_ticks;
    leapt -= std::min({leapt, leap_ticks_, last_ticks_ - ticks});
    leap_ticks_ = 0;
  }
  last_ticks_ = ticks;
}

// Every call that is compared is popped, so all exits together take no longer than all entries.
void ThreadStack::exit_outer(Action action, std::uint32_t function) {
  while (!is_empty() && top_->function != function) {
    shared_.report.count(Issue::kImpliedExit);
    pop();
  }
  if (is_empty()) {
    exit_unknown(action, function);
  } else {
    tree_[top_->node].note(action);
    pop();
  }
}

void ThreadStack::exit_unknown(Action action, std::uint32_t function) {
  shared_.report.count(Issue::kLateRoot);
  if (!tree_.root_becomes(function, max_nodes())) {
    shared_.report.count(Issue::kTooManyStacks);
    return;
  }
  ++shared_.pending_nodes;
  tree_[top_->node].note(action);
  top_->node = tree_.root();
  ++late_roots_;
  if (listener_ != nullptr) {
    listener_->on_late_root(id_, function, first_ticks_, shown_ticks_, late_roots_);
  }
}

// A stack does not grow while calls above it have no element, since their exits come first.
bool ThreadStack::may_be_deeper() {
  constexpr std::size_t kFirstDepth = 64;
  const StacksOptions& options = shared_.options;
  const std::size_t granted = stack_.size() - 1;
  const std::size_t depth = std::min(std::max(kFirstDepth, 2 * granted), options.max_depth);
  const std::size_t more = depth - granted;
  if (too_deep_ != 0 || more == 0 || shared_.granted_depth + more > options.max_open) return false;
  const std::size_t open = open_calls();
  stack_.resize(depth + 1);
  shared_.granted_depth += more;
  top_ = stack_.data() + open;
  last_ = stack_.data() + depth;
  return true;
}

CallTree::Index ThreadStack::add_node(CallTree::Index parent, std::uint32_t function) {
  const std::size_t before = tree_.nodes().size();
  const CallTree::Index node = tree_.child(parent, function, max_nodes());
  shared_.pending_nodes += tree_.nodes().size() - before;
  return node;
}

// The limit for this tree that keeps all trees together within the limit.
std::size_t ThreadStack::max_nodes() const {
  const std::size_t all = shared_.tree.nodes().size() + shared_.pending_nodes;
  const std::size_t left = shared_.options.max_nodes - std::min(all, shared_.options.max_nodes);
  return tree_.nodes().size() + left;
}

}  // namespace profd::xray
