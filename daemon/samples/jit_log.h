// When the stacks with frames in code made at run time were sampled.
//
// Equal stacks are one stack with a count; but what an address in made code means changes with
// time, and the runtime may tell late. So of such stacks the times are kept until the profile is
// written, 16 bytes a sample. A log that is full folds its oldest half: entries of one stack that
// mean the same by what is known then become one. Copied for a dump, moved to the worker; no thread
// affinity.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace profd {

class JitLog {
 public:
  static constexpr std::size_t kMaxEntries = std::size_t{1} << 17;

  struct Entry {
    std::uint64_t time_ns = 0;
    std::uint32_t stack = 0;  // index in the process's StackTable
    std::uint32_t count = 0;  // samples of it, this one and later ones that mean the same
  };

  // Whether all addresses of a stack mean the same at two times. If they do, they do at every time
  // in between.
  using MeansTheSame = std::function<bool(std::uint32_t stack, std::uint64_t a, std::uint64_t b)>;

  [[nodiscard]] bool empty() const { return entries_.empty(); }
  [[nodiscard]] bool is_full() const { return entries_.size() >= kMaxEntries; }

  // Throws std::bad_alloc; then nothing has changed.
  void add(std::uint32_t stack, std::uint64_t time_ns) { entries_.push_back({time_ns, stack, 1}); }

  // Makes room for an eighth of kMaxEntries at least. Where the meanings change too often for that,
  // all samples of a stack in the oldest half get one time, and those of too many stacks none; they
  // are counted as blurred.
  void fold_oldest_half(const MeansTheSame& means_the_same);

  // By stack and time.
  void sort();

  [[nodiscard]] std::span<const Entry> entries() const { return entries_; }
  [[nodiscard]] std::uint64_t blurred() const { return blurred_; }

  // What one entry may take, since a vector that doubles may be twice as large as its content.
  static constexpr std::uint64_t kEntryBytes = 2 * sizeof(Entry);

 private:
  void blur(std::vector<Entry>& folded);

  std::vector<Entry> entries_;
  std::uint64_t blurred_ = 0;
};

// How many of the first entries mean the same, of one stack and sorted by time; there is one at
// least. Looks at few of them where little changed.
[[nodiscard]] std::size_t run_length(std::span<const JitLog::Entry> of_one_stack,
                                     const JitLog::MeansTheSame& same);

// Splits entries of one stack, sorted by time, into runs that mean the same, and gives them to
// `each` in that order.
void for_each_run(std::span<const JitLog::Entry> of_one_stack, const JitLog::MeansTheSame& same,
                  const std::function<void(std::span<const JitLog::Entry>)>& each);

// The entries of each stack in turn; they are sorted by stack.
void for_each_stack(std::span<const JitLog::Entry> entries,
                    const std::function<void(std::span<const JitLog::Entry>)>& each);

}  // namespace profd
