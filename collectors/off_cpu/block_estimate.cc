#include "collectors/off_cpu/block_estimate.h"

#include <algorithm>

namespace profd {
namespace {

// value * 2^32 / chance. What is behind the point goes to `rest`, in parts of 2^32, and comes from
// there when it is a whole one. `value` is below 2^32.
std::uint64_t divide_by_chance(std::uint64_t value, std::uint32_t chance, std::uint64_t& rest) {
  constexpr unsigned kBits = 32;
  const std::uint64_t product = value << kBits;
  rest += (product % chance << kBits) / chance;
  const std::uint64_t whole = product / chance + (rest >> kBits);
  rest &= (std::uint64_t{1} << kBits) - 1;
  return whole;
}

}  // namespace

BlockSpan BlockSpan::within(const BlockSpan& other) const {
  const std::uint64_t start = std::max(start_ns, other.start_ns);
  return {.start_ns = start, .end_ns = std::max(start, std::min(end_ns, other.end_ns))};
}

std::optional<BlockEstimate> BlockEstimator::estimate(const BlockSpan& block,
                                                      const BlockSpan& counted,
                                                      std::optional<std::uint32_t> chance) {
  const bool is_certain = chance && *chance == 0;
  if (is_certain || block.ns() >= long_ns_) return BlockEstimate{.blocks = 1, .ns = counted.ns()};
  if (!chance) return std::nullopt;
  return BlockEstimate{.blocks = divide_by_chance(1, *chance, rest_of_blocks_),
                       .ns = divide_by_chance(counted.ns(), *chance, rest_of_ns_)};
}

}  // namespace profd
