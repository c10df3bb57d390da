// When the samples of one process were taken, in the ticks of formats/profile/sample_times.h: two
// or three bytes a sample, beside the counts of its stacks.
//
// The bytes lie in blocks. A copy shares the blocks, and reads what they had then; so a dump copies
// no times of a running session. That is safe on another thread: nobody writes to bytes that a copy
// has, and a copy is not added to. A value without thread affinity.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace profd {

class TimeLog {
 public:
  struct Entry {
    std::uint32_t stack = 0;  // index in the process's StackTable
    std::uint32_t tick = 0;
  };

  // Returns the memory that the entry took: usually 0, since it has room in the last block. None:
  // it needs more than `room_bytes`; then nothing has changed. Throws std::bad_alloc likewise.
  [[nodiscard]] std::optional<std::size_t> add(const Entry& entry, std::uint64_t room_bytes);

  // In the order of add().
  [[nodiscard]] std::vector<Entry> entries() const;

  // The size of a log's first block.
  static constexpr std::size_t kFirstBlockBytes = 64;

 private:
  static constexpr std::size_t kMaxBlockBytes = std::size_t{16} << 10;
  static constexpr std::size_t kMaxEntryBytes = 10;

  struct Block {
    std::shared_ptr<std::uint8_t[]> bytes;
    std::uint32_t used = 0;
  };

  [[nodiscard]] std::size_t next_block_bytes() const;

  std::vector<Block> blocks_;
  std::size_t bytes_ = 0;       // of all blocks
  std::size_t last_bytes_ = 0;  // of the last block
  std::uint32_t last_tick_ = 0;
};

// The ticks of each stack of a process, from which the runs of one stack take theirs in order.
class TicksOfStacks {
 public:
  TicksOfStacks() = default;
  explicit TicksOfStacks(const TimeLog& log);

  // The next ticks of the stack, sorted: `count`, or as many as are left.
  [[nodiscard]] std::span<const TimeLog::Entry> take(std::size_t stack, std::uint64_t count);

 private:
  std::vector<TimeLog::Entry> entries_;  // by stack and tick
  std::vector<std::size_t> next_;        // by stack
};

}  // namespace profd
