// The records of interpreted frames that wait for their sample, which comes next in the same ring,
// or behind those of a tick that interrupted a switch. On the io thread.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "collectors/bpf/sample.h"

namespace profd {

// A copy of a record of interpreted frames.
struct InterpretedStack {
  profd_runtime_kind kind = PROFD_RUNTIME_NONE;
  std::uint8_t layout = 0;
  profd_chain_end end = PROFD_CHAIN_COMPLETE;
  std::vector<profd_interpreted_entry> entries{};

  [[nodiscard]] bool empty() const { return entries.empty(); }
};

class PendingStacks {
 public:
  // Takes the place of an earlier one of the same CPU and source, whose sample was lost; that is
  // counted.
  void add(const InterpretedStackView& stack);

  // The frames of this sample: those of the same CPU, source, time and process. None: it has none,
  // or they were lost. A sample with block.id != 0 is of a block. Its memory is used again.
  [[nodiscard]] const InterpretedStack* take(const SampleView& sample);

  // Records whose sample did not come, and samples with PROFD_INTERPRETED_SENT whose record did
  // not: a bug of profd, but for samples that were lost.
  [[nodiscard]] std::uint64_t orphans() const { return orphans_; }

 private:
  struct Pending {
    bool is_there = false;
    ProcessKey process{};
    std::uint64_t time_ns = 0;
    InterpretedStack stack{};
  };

  std::vector<std::array<Pending, 2>> cpus_;  // by CPU: of ticks, of blocks
  std::uint64_t orphans_ = 0;
};

}  // namespace profd
