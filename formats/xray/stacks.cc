#include "formats/xray/stacks.h"

#include <utility>

#include "formats/xray/thread_stack.h"

namespace profd::xray {

Stacks::Stacks(const StacksOptions& options) : shared_(std::make_unique<StacksShared>(options)) {}
Stacks::Stacks(Stacks&&) noexcept = default;
Stacks& Stacks::operator=(Stacks&&) noexcept = default;
Stacks::~Stacks() = default;

ThreadStack* Stacks::find_or_add(ThreadId id) {
  const auto found = threads_.find(id);
  if (found != threads_.end()) return found->second.get();
  if (threads_.size() >= shared_->options.max_threads) return nullptr;
  ++shared_->report.threads;
  return threads_.emplace(id, std::make_unique<ThreadStack>(*shared_, id)).first->second.get();
}

Decoded Stacks::append(ThreadId thread, std::string_view records) {
  ThreadStack* const stack = find_or_add(thread);
  if (stack != nullptr) return stack->append(records);
  shared_->report.count(Issue::kTooManyThreads, records.size() / kFunctionBytes);
  return {records.size(), Stop::kOutOfBytes};
}

void Stacks::begin_buffer(ThreadId thread, const Format& format) {
  if (ThreadStack* const stack = find_or_add(thread)) stack->begin_buffer(format);
}

void Stacks::end_buffer(ThreadId thread, const Decoded& last, std::uint64_t bytes_left, Tail tail) {
  if (ThreadStack* const stack = find_or_add(thread)) stack->end_buffer(last, bytes_left, tail);
}

void Stacks::add(ThreadId thread, std::string_view buffer) {
  begin_buffer(thread, shared_->options.format);
  const Decoded decoded = append(thread, buffer);
  end_buffer(thread, decoded, buffer.size() - decoded.bytes, Tail::kWhole);
}

void Stacks::gap(ThreadId thread, std::uint64_t lost) {
  shared_->report.count(Issue::kGap);
  shared_->report.count(Issue::kLostRecords, lost);
  if (ThreadStack* const stack = find_or_add(thread)) stack->end_segment();
}

void Stacks::end_thread(ThreadId thread) {
  const auto found = threads_.find(thread);
  if (found == threads_.end()) return;
  found->second->end_segment();
  threads_.erase(found);
}

Measured Stacks::snapshot() const {
  Measured so_far{shared_->tree, shared_->report};
  for (const auto& [id, stack] : threads_) {
    so_far.report.count(Issue::kTooManyStacks,
                        so_far.tree.merge(stack->tree(), shared_->options.max_nodes));
  }
  return so_far;
}

Measured Stacks::finish() {
  for (const auto& [id, stack] : threads_) stack->end_segment();
  threads_.clear();
  Measured all{std::move(shared_->tree), shared_->report};
  shared_ = std::make_unique<StacksShared>(shared_->options);
  return all;
}

std::size_t Stacks::nodes() const { return shared_->tree.nodes().size() + shared_->pending_nodes; }

}  // namespace profd::xray
