// How many blocks the kernel side chooses beyond its tokens: sets profd_block_rate.scale so that
// all CPUs together come near the walks that they may make. Pure: the caller reads the counters and
// writes the map.

#pragma once

#include <cstdint>

#include "bpf/block_abi.h"

namespace profd {

class WalkRate {
 public:
  static constexpr std::uint64_t kIntervalNs = 100'000'000;
  // The scale by which a block of the mean duration T is certain: what it is at first.
  [[nodiscard]] static std::uint32_t scale_of_certain(std::uint64_t long_ns);

  WalkRate(std::uint64_t long_ns, std::uint32_t walks_per_second, unsigned cpus);

  // The sums over all CPUs at a time. Returns the scale from then on; to be called once in
  // kIntervalNs or later. It halves at once where there were twice the walks, and grows by a
  // quarter at most: above scale_of_certain() only while blocks are left unsampled, since many
  // short ones need it to be sampled often enough. It goes back there afterwards, so that a quiet
  // time does not make the next storm one of walks.
  std::uint32_t update(const profd_switch_counters& sum, std::uint64_t now_ns);

 private:
  std::uint64_t long_ns_;
  std::uint64_t walks_per_second_;  // by chance, of all CPUs: half of those by token
  std::uint32_t scale_;
  std::uint64_t walks_before_ = 0;
  std::uint64_t unsampled_before_ = 0;
  std::uint64_t before_ns_ = 0;
};

}  // namespace profd
