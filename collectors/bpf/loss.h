// Every way to lose a sample, in the kernel first, then in user space. Each has a name and a
// counter, which `profctl status` shows and session.json has.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "bpf/profd_abi.h"

namespace profd {

enum class Loss : std::uint8_t {
  kRingFull = PROFD_LOSS_RING_FULL,
  kRingBusy = PROFD_LOSS_RING_BUSY,
  kNoRing = PROFD_LOSS_NO_RING,
  kScratch = PROFD_LOSS_SCRATCH,
  kMalformedRecord = PROFD_LOSS_COUNT,  // a record that failed its checks: a bug of profd
  kMemoryLimit,  // the session reached its memory limit and the stack was new
  kCount,
};

inline constexpr std::size_t kLossCount = static_cast<std::size_t>(Loss::kCount);

using LossCounts = std::array<std::uint64_t, kLossCount>;

[[nodiscard]] constexpr std::string_view loss_name(Loss loss) {
  constexpr std::array<std::string_view, kLossCount> kNames = {
      "ring_full", "ring_busy", "no_ring", "scratch", "malformed_record", "memory_limit"};
  return loss < Loss::kCount ? kNames[static_cast<std::size_t>(loss)] : "unknown";
}

}  // namespace profd
