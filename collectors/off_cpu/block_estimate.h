// The value of a block in a session: pure functions over its times and its chance.
//
// A block that lasts at least T counts as itself, whether it was chosen or not, since the kernel
// side reports each of these. A shorter one counts only if it was chosen, and stands for
// 1 / chance blocks like it. Both are unbiased: for which of the two a block is, its whole duration
// decides, also where a session has only a part of it.

#pragma once

#include <cstdint>
#include <optional>

namespace profd {

// By CLOCK_MONOTONIC, in nanoseconds. The end is not before the start.
struct BlockSpan {
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;  // of a block that is open: now

  [[nodiscard]] std::uint64_t ns() const { return end_ns - start_ns; }
  // The part that lies in both; of 0 ns where none does.
  [[nodiscard]] BlockSpan within(const BlockSpan& other) const;
};

struct BlockEstimate {
  std::uint64_t blocks = 0;  // at least 1
  std::uint64_t ns = 0;      // of all of them
};

// Of one session, since the remainders of rounding are carried: so the sum of `blocks` is off by
// less than 1, and that of `ns` by less than 1.
class BlockEstimator {
 public:
  // `long_ns` is T, at most 4 s: a product with a weight then fits 64 bits.
  explicit BlockEstimator(std::uint64_t long_ns) : long_ns_(long_ns) {}

  // `block` is the whole one, `counted` its part in the session. `chance` is that of
  // profd_block.chance; none: the block was not chosen. No estimate: the block stands for none, as
  // it was not chosen and is not long.
  [[nodiscard]] std::optional<BlockEstimate> estimate(const BlockSpan& block,
                                                      const BlockSpan& counted,
                                                      std::optional<std::uint32_t> chance);

 private:
  std::uint64_t long_ns_;
  std::uint64_t rest_of_blocks_ = 0;  // both in parts of 2^32
  std::uint64_t rest_of_ns_ = 0;
};

}  // namespace profd
