// Allocates words of the arenas, first fit; neighbouring gaps are merged. It handles positions
// only, not memory. A block is contained in one arena. Arenas come into use one by one.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace profd {

struct ArenaBlock {
  std::uint32_t arena = 0;
  std::uint32_t at = 0;  // index of its first word
  std::uint32_t words = 0;
};

class ArenaSpace {
 public:
  ArenaSpace(std::size_t max_arenas, std::uint32_t arena_words)
      : max_arenas_(max_arenas), arena_words_(arena_words) {}

  // None if no gap is large enough and no arena is left.
  [[nodiscard]] std::optional<ArenaBlock> take(std::uint32_t words);
  void release(const ArenaBlock& block);

  [[nodiscard]] std::size_t arenas() const { return gaps_.size(); }
  [[nodiscard]] bool is_empty(std::size_t arena) const {
    const Gaps& gaps = gaps_[arena];
    return gaps.size() == 1 && gaps.begin()->second == arena_words_;
  }
  [[nodiscard]] std::uint64_t words_taken() const { return words_taken_; }
  [[nodiscard]] std::uint64_t words_in_all() const {
    return std::uint64_t{max_arenas_} * arena_words_;
  }

 private:
  using Gaps = std::map<std::uint32_t, std::uint32_t>;  // number of words, by first word

  std::size_t max_arenas_;
  std::uint32_t arena_words_;
  std::vector<Gaps> gaps_;  // by arena
  std::uint64_t words_taken_ = 0;
};

}  // namespace profd
