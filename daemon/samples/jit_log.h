// The times at which stacks with frames in JIT code were sampled.
//
// Equal stacks are one stack with a count. But the meaning of an address in JIT code changes with
// time, and the runtime may report it late. So the times of such stacks are kept until the profile
// is written, 16 bytes a sample. A log that is full folds its oldest half: entries of one stack
// whose meaning is the same, as far as it is known then, become one. A value without thread
// affinity.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

namespace profd {

class JitLog {
 public:
  static constexpr std::size_t kMaxEntries = std::size_t{1} << 17;

  struct Entry {
    std::uint64_t time_ns = 0;
    std::uint32_t stack = 0;  // index in the process's StackTable
    std::uint32_t count = 0;  // samples: this one, and later ones with the same meaning
  };

  // Whether all addresses of a stack mean the same at two times. If so, they do at every time in
  // between. May answer false where it has no time left to look.
  using MeansTheSame = std::function<bool(std::uint32_t stack, std::uint64_t a, std::uint64_t b)>;

  [[nodiscard]] bool empty() const { return entries_.empty(); }
  [[nodiscard]] bool is_full() const { return entries_.size() >= kMaxEntries; }

  // `count` samples of one time; what an entry can't hold of them has no time. Throws
  // std::bad_alloc; then nothing has changed.
  void add(std::uint32_t stack, std::uint64_t time_ns, std::uint64_t count = 1) {
    constexpr std::uint64_t kMaxCount = std::numeric_limits<std::uint32_t>::max();
    entries_.push_back({time_ns, stack, static_cast<std::uint32_t>(std::min(count, kMaxCount))});
    time_dropped_ += count - std::min(count, kMaxCount);
  }

  // Makes room for an eighth of kMaxEntries at least. Where the meanings change too often for that,
  // all samples of a stack in the oldest half get one time; where there are too many stacks, some
  // get none.
  void fold_oldest_half(const MeansTheSame& means_the_same);

  // Sorts the entries by stack and time.
  void sort();

  // Counts samples whose time is not kept.
  void drop_time(std::uint64_t count = 1) { time_dropped_ += count; }

  [[nodiscard]] std::span<const Entry> entries() const { return entries_; }
  // Samples that have the time of another sample, or none.
  [[nodiscard]] std::uint64_t time_dropped() const { return time_dropped_; }

  // The memory for one entry: a vector that doubles may be twice as large as its content.
  static constexpr std::uint64_t kEntryBytes = 2 * sizeof(Entry);

 private:
  void drop_times(std::vector<Entry>& folded);

  std::vector<Entry> entries_;
  std::uint64_t time_dropped_ = 0;
};

// The number of first entries that mean the same, of one stack and sorted by time: one at least.
// Compares few of them where little has changed.
[[nodiscard]] std::size_t run_length(std::span<const JitLog::Entry> of_one_stack,
                                     const JitLog::MeansTheSame& same);

}  // namespace profd
