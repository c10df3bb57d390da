#include "collectors/interpreters/pending_stacks.h"

namespace profd {
namespace {

// More than any kernel has.
constexpr std::size_t kMaxCpus = std::size_t{1} << 16;

}  // namespace

void PendingStacks::add(const InterpretedStackView& stack) {
  if (stack.cpu >= kMaxCpus) return;
  if (stack.cpu >= cpus_.size()) cpus_.resize(std::size_t{stack.cpu} + 1);
  Pending& pending = cpus_[stack.cpu][stack.of_block ? 1 : 0];
  if (pending.is_there) ++orphans_;
  pending.is_there = false;  // until all of it is
  pending.stack.entries.assign(stack.entries.begin(), stack.entries.end());
  pending.stack.kind = stack.kind;
  pending.stack.layout = stack.layout;
  pending.stack.end = stack.end;
  pending.process = stack.process;
  pending.time_ns = stack.time_ns;
  pending.is_there = true;
}

const InterpretedStack* PendingStacks::take(const SampleView& sample) {
  if (sample.interpreted != PROFD_INTERPRETED_SENT) return nullptr;
  if (sample.cpu < cpus_.size()) {
    Pending& pending = cpus_[sample.cpu][sample.block.id != 0 ? 1 : 0];
    if (pending.is_there && pending.process == sample.process &&
        pending.time_ns == sample.time_ns) {
      pending.is_there = false;
      return &pending.stack;
    }
  }
  ++orphans_;
  return nullptr;
}

}  // namespace profd
