// The blocks that are open at some time in a session that goes on, with what each counts up to
// then, for a copy of the session. A value that shares the stacks with open_blocks.h, which keeps
// them no longer than the blocks are open.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collectors/bpf/sample.h"
#include "collectors/off_cpu/block_ledger.h"

namespace profd {

struct OngoingBlock {
  std::shared_ptr<const SampleView> sample{};  // not valued; never null in a list
  BlockTerm term{};                            // what it stands for
  std::uint64_t own_ns = 0;                    // of this one alone

  // As an ongoing sample of the slot. Borrows the stack of *this.
  [[nodiscard]] SampleView valued(SessionSlot slot) const {
    SampleView view = *sample;
    view.sessions = std::uint32_t{1} << slot;
    view.count = term.blocks;
    view.block.ns = term.ns;
    view.block.own_ns = own_ns;
    view.block.is_ongoing = true;
    return view;
  }
};

struct OngoingBlocks {
  std::vector<OngoingBlock> blocks{};
  BlockLedger ledger{};  // the terms of user space, of these blocks alone
};

}  // namespace profd
