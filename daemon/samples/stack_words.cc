#include "daemon/samples/stack_words.h"

#include <algorithm>
#include <utility>

namespace profd {

StackWords::Place StackWords::add(std::span<const std::uint64_t> words) {
  if (last_size_ - last_used_ < words.size() || chunks_.empty()) {
    const std::size_t size = std::max(words.size(), std::min(words_, kMaxChunkWords));
    chunks_.push_back(std::make_shared_for_overwrite<std::uint64_t[]>(size));
    last_size_ = size;
    last_used_ = 0;
  }
  const Place place{.chunk = static_cast<std::uint32_t>(chunks_.size() - 1),
                    .word = static_cast<std::uint32_t>(last_used_)};
  std::ranges::copy(words, chunks_.back().get() + last_used_);
  last_used_ += words.size();
  words_ += words.size();
  return place;
}

void StackWords::swap(StackWords& other) noexcept {
  chunks_.swap(other.chunks_);
  std::swap(words_, other.words_);
  std::swap(last_used_, other.last_used_);
  std::swap(last_size_, other.last_size_);
}

}  // namespace profd
