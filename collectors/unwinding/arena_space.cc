#include "collectors/unwinding/arena_space.h"

#include <algorithm>
#include <iterator>

namespace profd {

std::optional<ArenaBlock> ArenaSpace::take(std::uint32_t words) {
  if (words == 0 || words > arena_words_) return std::nullopt;
  for (std::size_t arena = 0; arena < max_arenas_; ++arena) {
    if (arena == gaps_.size()) gaps_.push_back({{0, arena_words_}});
    Gaps& gaps = gaps_[arena];
    const auto gap = std::ranges::find_if(gaps, [&](const auto& g) { return g.second >= words; });
    if (gap == gaps.end()) continue;
    const auto [at, size] = *gap;
    gaps.erase(gap);
    if (size > words) gaps.emplace(at + words, size - words);
    words_taken_ += words;
    return ArenaBlock{.arena = static_cast<std::uint32_t>(arena), .at = at, .words = words};
  }
  return std::nullopt;
}

void ArenaSpace::release(const ArenaBlock& block) {
  Gaps& gaps = gaps_[block.arena];
  words_taken_ -= block.words;
  auto gap = gaps.emplace(block.at, block.words).first;
  if (const auto next = std::next(gap);
      next != gaps.end() && gap->first + gap->second == next->first) {
    gap->second += next->second;
    gaps.erase(next);
  }
  if (gap == gaps.begin()) return;
  if (const auto before = std::prev(gap); before->first + before->second == gap->first) {
    before->second += gap->second;
    gaps.erase(gap);
  }
}

}  // namespace profd
