#include "collectors/off_cpu/walk_rate.h"

#include <algorithm>

namespace profd {
namespace {

constexpr std::uint64_t kNsOfSecond = 1'000'000'000;
// In one interval. The walks of a storm that begins at a high scale are few after two of them.
constexpr std::uint32_t kMaxFall = 256;

// Blocks that were not chosen, once for each of their sessions.
std::uint64_t unsampled_blocks(const profd_switch_counters& sum) {
  std::uint64_t blocks = 0;
  for (const profd_block_counters& session : sum.of_session) {
    blocks += session.short_unsampled.count + session.long_unsampled.count;
  }
  return blocks;
}

}  // namespace

// A chance of 2^32 for a mean of T: 2^32 / (T / 1,024).
std::uint32_t WalkRate::scale_of_certain(std::uint64_t long_ns) {
  const std::uint64_t scale = (std::uint64_t{1} << 42) / std::max<std::uint64_t>(long_ns, 1);
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(scale, 1, UINT32_MAX));
}

WalkRate::WalkRate(std::uint64_t long_ns, std::uint32_t walks_per_second, unsigned cpus)
    : long_ns_(long_ns),
      walks_per_second_(std::uint64_t{walks_per_second} * cpus / 2),
      scale_(scale_of_certain(long_ns)) {}

std::uint32_t WalkRate::update(const profd_switch_counters& sum, std::uint64_t now_ns) {
  const std::uint64_t walks = sum.walks_by_chance - walks_before_;
  const std::uint64_t elapsed_ns = now_ns - before_ns_;
  const bool is_first = before_ns_ == 0;
  const std::uint64_t unsampled = unsampled_blocks(sum);
  const bool are_all_sampled = unsampled == unsampled_before_;
  walks_before_ = sum.walks_by_chance;
  before_ns_ = now_ns;
  unsampled_before_ = unsampled;
  if (is_first) return scale_;
  // A pause of an hour is no reason for an hour's walks.
  const std::uint64_t share_ns = std::min(elapsed_ns, kNsOfSecond);
  const std::uint64_t wanted =
      std::max<std::uint64_t>(walks_per_second_ * share_ns / kNsOfSecond, 1);
  const std::uint64_t scale = scale_;
  const std::uint64_t highest = std::max(scale + scale / 4, scale + 1);
  const std::uint64_t lowest = std::max<std::uint64_t>(scale / kMaxFall, 1);
  std::uint64_t next = std::clamp(walks == 0 ? highest : scale * wanted / walks, lowest, highest);
  // Nothing is left to sample: a higher scale gains nothing.
  if (are_all_sampled && next > scale) {
    const std::uint64_t certain = scale_of_certain(long_ns_);
    next = scale > certain ? std::max(certain, scale - scale / 4) : std::min(certain, next);
  }
  scale_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(next, UINT32_MAX));
  return scale_;
}

}  // namespace profd
