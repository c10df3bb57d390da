// The counts of the blocks of a session, since it started. Those of the kernel side balance:
//
//     blocked = sampled + long_unsampled + short_unsampled + lost
//
// in number and in time, and no term is computed from the others. The samples of a session stand
// for all of it but what is lost: those by weight for short_unsampled as well, in the mean.

#pragma once

#include <array>
#include <cstdint>

#include "bpf/block_abi.h"

namespace profd {

struct BlockTerm {
  std::uint64_t blocks = 0;
  std::uint64_t ns = 0;

  BlockTerm& operator+=(const BlockTerm& other);
  BlockTerm& operator-=(const BlockTerm& other);
  friend bool operator==(const BlockTerm&, const BlockTerm&) = default;
};

struct BlockLedger {
  // Of blocks that have ended, in the kernel.
  BlockTerm blocked;
  BlockTerm sampled;
  BlockTerm long_unsampled;
  BlockTerm short_unsampled;
  std::array<BlockTerm, PROFD_LOSS_COUNT> lost{};

  // In user space, as the sink got them: with the time that they stand for.
  BlockTerm delivered;         // all of these
  BlockTerm by_weight;         // of them, blocks that stand for more than themselves
  BlockTerm without_stack;     // of them, with `[stack not taken]`
  BlockTerm from_before;       // of them, with `[blocked before the start]`
  BlockTerm ongoing;           // of them, those that had not ended
  BlockTerm no_room;           // not delivered: open_blocks.h had no room for the start
  std::uint64_t no_start = 0;  // ends whose start did not arrive
  std::uint64_t no_end = 0;    // starts whose end did not arrive, and that are not open any more

  BlockLedger& operator+=(const BlockLedger& more);
  BlockLedger& operator-=(const BlockLedger& before);
  friend bool operator==(const BlockLedger&, const BlockLedger&) = default;
};

}  // namespace profd
