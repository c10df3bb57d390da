// The distinct stacks of one process image in one session, each with its number of samples and, of
// blocks, their time and the longest one.
//
// Two samples with the same words have the same stack, so counting takes one hash and one
// comparison; the words are copied only when a stack is new. Addresses are resolved when the
// session ends. A value: it moves to the worker, which for a dump gets a copy to read. No thread
// affinity.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "collectors/bpf/sample.h"
#include "daemon/samples/stack_words.h"
#include "formats/profile/profile.h"

namespace profd {

// Whether a sample has a user stack.
enum class StackClass : std::uint8_t {
  kUser,        // the task's user stack belongs to it
  kKernelOnly,  // no: kernel threads, and ticks in exit or exec
  kCompat,      // a 32-bit task: its stack is not unwound
};

[[nodiscard]] StackClass class_of(profd_context context);

// Whether the unwind rows mark the last frame as the outermost one: the entry of the program or
// thread. `user_end` is a profd_user_end, here and below.
[[nodiscard]] constexpr bool reached_root(unsigned user_end) { return user_end == PROFD_END_ENTRY; }

// Whether the user stack was taken: of some blocks it was not (block_abi.h).
[[nodiscard]] constexpr bool was_taken(unsigned user_end) {
  return user_end != PROFD_END_NOT_TAKEN && user_end != PROFD_END_BEFORE_START;
}

// The name of the reason why unwinding stopped before the root. docs/api.md explains the reasons.
[[nodiscard]] std::string_view incomplete_reason(StackClass stack_class, unsigned user_end);

// A user frame stands for a byte of code: the innermost frame, and frames that a signal or a fault
// interrupted, for the byte at their address, all others for the call before it. An interpreted
// frame (InterpretedFrame) has an exact position, and is no caller of the native frame before it.
// `words` are the user frames of a stack, leaf first.
[[nodiscard]] PcKind kind_of_frame(std::span<const std::uint64_t> words, std::size_t index);

[[nodiscard]] std::uint64_t code_address(const UserFrame& frame, PcKind kind);

class StackTable {
 public:
  struct Stack {
    std::uint64_t count = 0;
    StackWords::Place words{};
    std::uint32_t next_of_hash = 0;  // index + 1 of another stack with the same hash; 0: none
    std::uint16_t kernel_frames = 0;
    std::uint16_t user_frames = 0;
    std::uint8_t mapping_count = 0;
    StackClass stack_class = StackClass::kUser;
    std::uint8_t user_end = 0;  // profd_user_end
    bool is_timed = false;      // the times of its samples are kept (jit_log.h)
    std::uint32_t thread = 0;   // by which equal stacks differ (thread_names.h)
    // By these they differ too. Of ticks: PROFD_BLOCK_NONE, false.
    std::uint8_t state = 0;  // profd_block_state
    bool is_ongoing = false;
  };

  enum class Added { kKnown, kNew, kNoRoom };

  // `hash` is hash_of(sample). kNoRoom: the stack is new and takes more than `room_bytes`, or there
  // is no memory; then nothing changes. So it may be for a known stack of a table whose first
  // sample with a time this is. `thread` is 0 where threads are not distinguished.
  Added add(const SampleView& sample, std::uint64_t hash, std::uint64_t room_bytes,
            std::uint32_t thread = 0) noexcept;

  // Over all by which stacks differ; seeded, see SeededHash.
  [[nodiscard]] static std::uint64_t hash_of(const SampleView& sample) noexcept;

  // The stacks so far, for another thread. It shares their words. What is added to it is a new
  // stack, or one that was added to it before.
  [[nodiscard]] StackTable copy_to_read() const;

  [[nodiscard]] std::span<const Stack> stacks() const { return stacks_; }

  // The index in stacks() of the stack that the last successful add() counted.
  [[nodiscard]] std::uint32_t last_counted() const { return last_counted_; }

  // From now on the times of that stack's samples are kept.
  void keep_times_of_last_counted() { stacks_[last_counted_].is_timed = true; }

  // The frames begin with the leaf; user frames are words of UserFrame or InterpretedFrame.
  [[nodiscard]] std::span<const std::uint64_t> kernel_frames(const Stack& stack) const;
  [[nodiscard]] std::span<const std::uint64_t> user_frames(const Stack& stack) const;
  [[nodiscard]] std::span<const std::uint64_t> mapping_ids(const Stack& stack) const;

  // The time of its samples, in nanoseconds; 0 in a table that only counts (BlockPart::ns).
  [[nodiscard]] std::uint64_t ns(const Stack& stack) const { return times_of(stack).ns; }

  // Of the longest one of its blocks, however many of them its sample stands for. 0 of ticks.
  [[nodiscard]] std::uint64_t longest_ns(const Stack& stack) const {
    return times_of(stack).longest_ns;
  }

  // An upper bound of the memory in use: what grows may have room for as much again.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  struct Times {
    std::uint64_t ns = 0;
    std::uint64_t longest_ns = 0;
  };
  struct HashIsGood {
    using is_avalanching = void;
    std::size_t operator()(std::uint64_t hash) const noexcept { return hash; }
  };

  [[nodiscard]] bool equal(const Stack& stack, const SampleView& sample) const;
  [[nodiscard]] Stack* find(const SampleView& sample, std::uint64_t hash, std::uint32_t thread);
  [[nodiscard]] std::uint64_t bytes_of_first_time(const SampleView& sample) const;
  void begin_times(const SampleView& sample);
  [[nodiscard]] Times times_of(const Stack& stack) const;
  void count(Stack& stack, const SampleView& sample) noexcept;
  void append(const SampleView& sample, std::uint64_t hash, std::uint32_t thread);

  boost::unordered_flat_map<std::uint64_t, std::uint32_t, HashIsGood> first_of_hash_;
  std::vector<Stack> stacks_;
  std::vector<Times> times_;  // of each stack; empty until a sample has a time
  StackWords words_;
  std::uint64_t bytes_ = 0;
  std::uint32_t last_counted_ = 0;
};

}  // namespace profd
