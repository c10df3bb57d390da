// Texts that stay where they are, close together in blocks that grow with their number: many short
// texts take few allocations.
//
// A copy shares the blocks that there are; the next text of each begins a new one. Moving keeps the
// texts valid. Copies may be used by different threads.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

namespace profd {

class TextBlocks {
 public:
  // A copy of the text, valid as long as this object or a copy of it.
  std::string_view add(std::string_view text) {
    if (text.empty()) return "";  // not null: for memcpy()
    const bool has_own_block = !blocks_.empty() && blocks_.back().use_count() == 1;
    if (!has_own_block || last_bytes_ - used_ < text.size()) add_block(text.size());
    char* const copy = blocks_.back().get() + used_;
    std::memcpy(copy, text.data(), text.size());
    used_ += text.size();
    return {copy, text.size()};
  }

  // The memory of the blocks.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t kFirstBytes = 256;
  static constexpr std::size_t kMaxBytes = std::size_t{64} << 10;  // but for a longer text

  void add_block(std::size_t needed) {
    last_bytes_ = std::max(needed, std::clamp(bytes_, kFirstBytes, kMaxBytes));
    blocks_.push_back(std::make_shared_for_overwrite<char[]>(last_bytes_));
    used_ = 0;
    bytes_ += last_bytes_;
  }

  std::vector<std::shared_ptr<char[]>> blocks_;
  std::size_t last_bytes_ = 0;  // of the last block
  std::size_t used_ = 0;        // of the last block
  std::size_t bytes_ = 0;
};

}  // namespace profd
