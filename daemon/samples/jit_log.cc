#include "daemon/samples/jit_log.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

namespace profd {
namespace {

using Entry = JitLog::Entry;
using Entries = std::span<const Entry>;

constexpr std::size_t kEnoughRoom = JitLog::kMaxEntries / 8;

void sort_entries(std::span<Entry> entries) {
  std::ranges::sort(entries, {},
                    [](const Entry& entry) { return std::tuple(entry.stack, entry.time_ns); });
}

// Joins the entries into one, or as few as their counts allow.
void append_sum(Entries run, std::vector<Entry>& out) {
  Entry sum{.time_ns = run.front().time_ns, .stack = run.front().stack, .count = 0};
  for (const Entry& entry : run) {
    if (entry.count > std::numeric_limits<std::uint32_t>::max() - sum.count) {
      out.push_back(sum);
      sum = {.time_ns = entry.time_ns, .stack = entry.stack, .count = 0};
    }
    sum.count += entry.count;
  }
  out.push_back(sum);
}

std::uint64_t count_of(Entries entries) {
  std::uint64_t count = 0;
  for (const Entry& entry : entries) count += entry.count;
  return count;
}

// Calls `each` for the entries of each stack. They are sorted by stack.
void for_each_stack(Entries entries, auto each) {
  for (std::size_t first = 0; first < entries.size();) {
    std::size_t end = first + 1;
    while (end < entries.size() && entries[end].stack == entries[first].stack) ++end;
    each(entries.subspan(first, end - first));
    first = end;
  }
}

// Calls `each` for the runs of entries that mean the same, in order.
void for_each_run(Entries of_one_stack, const JitLog::MeansTheSame& same, auto each) {
  while (!of_one_stack.empty()) {
    const std::size_t length = run_length(of_one_stack, same);
    each(of_one_stack.first(length));
    of_one_stack = of_one_stack.subspan(length);
  }
}

}  // namespace

void JitLog::sort() { sort_entries(entries_); }

void JitLog::fold_oldest_half(const MeansTheSame& means_the_same) {
  const auto half = entries_.begin() + static_cast<std::ptrdiff_t>(entries_.size() / 2);
  const std::span<Entry> oldest(entries_.begin(), half);
  sort_entries(oldest);
  std::vector<Entry> folded;
  folded.reserve(entries_.size());
  for_each_stack(oldest, [&](Entries of_one_stack) {
    for_each_run(of_one_stack, means_the_same, [&](Entries run) { append_sum(run, folded); });
  });
  if (folded.size() + kEnoughRoom > oldest.size()) drop_times(folded);
  folded.insert(folded.end(), half, entries_.end());
  entries_ = std::move(folded);
}

// Keeps one time for each stack, and none for the last stacks where these are too many.
void JitLog::drop_times(std::vector<Entry>& folded) {
  const std::vector<Entry> runs = std::exchange(folded, {});
  for_each_stack(runs, [&](Entries of_one_stack) {
    if (of_one_stack.size() > 1) time_dropped_ += count_of(of_one_stack);
    append_sum(of_one_stack, folded);
  });
  const std::size_t most = kMaxEntries / 2 - kEnoughRoom;
  if (folded.size() <= most) return;
  time_dropped_ += count_of(std::span(folded).subspan(most));
  folded.resize(most);
}

std::size_t run_length(Entries of_one_stack, const JitLog::MeansTheSame& same) {
  if (of_one_stack.size() == 1) return 1;
  const Entry& first = of_one_stack.front();
  const auto is_same = [&](const Entry& entry) {
    return same(first.stack, first.time_ns, entry.time_ns);
  };
  if (is_same(of_one_stack.back())) return of_one_stack.size();
  // The run ends after the largest power of two within it, and before twice that.
  std::size_t step = 1;
  while (step < of_one_stack.size() && is_same(of_one_stack[step])) step *= 2;
  const Entries rest = of_one_stack.first(std::min(step, of_one_stack.size())).subspan(step / 2);
  const auto end = std::ranges::partition_point(rest, is_same);
  return std::max<std::size_t>(1, step / 2 + static_cast<std::size_t>(end - rest.begin()));
}

}  // namespace profd
