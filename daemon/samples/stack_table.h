// The distinct stacks of one process image in one session, each with its number of samples.
//
// A stack is known by the words of its sample, so the hot path is one hash and one comparison; the
// words are copied only when a stack is new. What the addresses mean is looked up at the session's
// end. A value: it can be copied for a dump and moved to the worker. No thread affinity.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "collectors/bpf/sample.h"

namespace profd {

// What a sample may say of its user stack.
enum class StackClass : std::uint8_t {
  kUser,        // the task's user stack belongs to it
  kKernelOnly,  // kernel threads, and ticks in exit or exec: there is none
  kCompat,      // a 32-bit task: there is one, which is not unwound
};

[[nodiscard]] StackClass class_of(profd_context context);

class StackTable {
 public:
  struct Stack {
    std::uint64_t count = 0;
    std::size_t first_word = 0;
    std::uint32_t next_of_hash = 0;  // index + 1 of another stack with the same hash; 0: none
    std::uint16_t kernel_frames = 0;
    std::uint16_t user_frames = 0;
    std::uint8_t mapping_count = 0;
    StackClass stack_class = StackClass::kUser;
    std::uint8_t user_end = 0;  // profd_user_end
    bool is_timed = false;      // the times of its samples are kept (jit_log.h)
  };

  enum class Added { kKnown, kNew, kNoRoom };

  // `hash` is hash_of(sample). A stack that is not here yet and would take more than `room_bytes`,
  // or for which there is no memory, changes nothing.
  Added add(const SampleView& sample, std::uint64_t hash, std::uint64_t room_bytes) noexcept;

  // Of all that makes two stacks different; seeded, see SeededHash.
  [[nodiscard]] static std::uint64_t hash_of(const SampleView& sample) noexcept;

  [[nodiscard]] std::span<const Stack> stacks() const { return stacks_; }

  // Which of stacks() the last add() that had room counted.
  [[nodiscard]] std::uint32_t last_counted() const { return last_counted_; }
  void time_last_counted() { stacks_[last_counted_].is_timed = true; }

  // Leaf first; user frames are UserFrame words.
  [[nodiscard]] std::span<const std::uint64_t> kernel_frames(const Stack& stack) const;
  [[nodiscard]] std::span<const std::uint64_t> user_frames(const Stack& stack) const;
  [[nodiscard]] std::span<const std::uint64_t> mapping_ids(const Stack& stack) const;

  // An upper bound of the memory held: vectors that double may be twice as large as their content.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  struct HashIsGood {
    using is_avalanching = void;
    std::size_t operator()(std::uint64_t hash) const noexcept { return hash; }
  };

  [[nodiscard]] bool equal(const Stack& stack, const SampleView& sample) const;
  void append(const SampleView& sample, std::uint64_t hash);

  boost::unordered_flat_map<std::uint64_t, std::uint32_t, HashIsGood> first_of_hash_;
  std::vector<Stack> stacks_;
  std::vector<std::uint64_t> words_;
  std::uint64_t bytes_ = 0;
  std::uint32_t last_counted_ = 0;
};

}  // namespace profd
