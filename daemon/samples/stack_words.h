// The words of stacks: a store to which is only added.
//
// The words lie in chunks. A copy has the same chunks, so a dump copies no words of a running
// session, and a store that grows moves none. That is safe with a copy on another thread: nobody
// writes to words that a copy has, and a copy that is added to begins a chunk of its own.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace profd {

class StackWords {
 public:
  struct Place {
    std::uint32_t chunk = 0;
    std::uint32_t word = 0;  // in the chunk
  };

  StackWords() = default;
  StackWords(const StackWords& other) : chunks_(other.chunks_), words_(other.words_) {}
  StackWords(StackWords&& other) noexcept { swap(other); }
  StackWords& operator=(StackWords other) noexcept {
    swap(other);
    return *this;
  }
  ~StackWords() = default;

  // Throws std::bad_alloc; then nothing has changed.
  Place add(std::span<const std::uint64_t> words);

  // `count` words from `index` on, of those at `place`.
  [[nodiscard]] std::span<const std::uint64_t> at(const Place& place, std::size_t index,
                                                  std::size_t count) const {
    return {chunks_[place.chunk].get() + place.word + index, count};
  }

 private:
  // A new chunk is as large as all before, up to this: small stores take little, and large ones
  // waste little.
  static constexpr std::size_t kMaxChunkWords = 8192;

  void swap(StackWords& other) noexcept;

  std::vector<std::shared_ptr<std::uint64_t[]>> chunks_;
  std::size_t words_ = 0;      // in all
  std::size_t last_used_ = 0;  // words of the last chunk
  std::size_t last_size_ = 0;  // 0: there is none, or the copied store may add to it
};

}  // namespace profd
