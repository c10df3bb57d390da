// What the runs of a stack (daemon/samples/jit_samples.h) have of its time: the part that they have
// of its samples, since only the time of all of them is known. Rounding loses nothing: each run
// takes its part of what the runs before it left. Used on a worker.

#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "daemon/samples/jit_samples.h"
#include "daemon/samples/stack_table.h"

namespace profd {

// Of a stack, or of a run of it.
struct StackValue {
  std::uint64_t samples = 0;
  std::uint64_t ns = 0;          // of an event that has_blocks()
  std::uint64_t longest_ns = 0;  // of its blocks; 0: unknown
};

class TimesOfRuns {
 public:
  // `stacks` must outlive *this.
  explicit TimesOfRuns(const StackTable& stacks) : stacks_(stacks) {}

  // Nanoseconds of the next run, in the order of JitSamples::runs.
  [[nodiscard]] std::uint64_t take(const JitSamples::Run& run) {
    if (run.stack != stack_) {
      const StackTable::Stack& stack = stacks_.stacks()[run.stack];
      stack_ = run.stack;
      samples_left_ = stack.count;
      ns_left_ = stacks_.ns(stack);
    }
    const std::uint64_t ns = std::min(part_of(run.count), ns_left_);
    ns_left_ -= ns;
    samples_left_ -= std::min(run.count, samples_left_);
    return ns;
  }

 private:
  // The whole nanoseconds of each sample first, so that no product overflows.
  [[nodiscard]] std::uint64_t part_of(std::uint64_t samples) const {
    if (samples >= samples_left_) return ns_left_;
    const std::uint64_t rest = ns_left_ % samples_left_;
    return ns_left_ / samples_left_ * samples + rest * samples / samples_left_;
  }

  const StackTable& stacks_;
  std::optional<std::uint32_t> stack_;
  std::uint64_t samples_left_ = 0;
  std::uint64_t ns_left_ = 0;
};

}  // namespace profd
