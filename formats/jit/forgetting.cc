#include "formats/jit/forgetting.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>

namespace profd {
namespace {

// Ranges of addresses, joined where they meet.
class AddressSet {
 public:
  [[nodiscard]] bool holds_all_of(const JitGeneration& row) const {
    const auto next = ranges_.upper_bound(row.address);
    return next != ranges_.begin() && std::prev(next)->second >= end_of(row);
  }

  [[nodiscard]] bool holds_any_of(const JitGeneration& row) const {
    const auto next = ranges_.upper_bound(row.address);
    if (next != ranges_.begin() && std::prev(next)->second > row.address) return true;
    return next != ranges_.end() && next->first < end_of(row);
  }

  void add(const JitGeneration& row) {
    std::uint64_t start = row.address;
    std::uint64_t end = end_of(row);
    auto at = ranges_.upper_bound(start);
    if (at != ranges_.begin() && std::prev(at)->second >= start) --at;
    while (at != ranges_.end() && at->first <= end) {
      start = std::min(start, at->first);
      end = std::max(end, at->second);
      at = ranges_.erase(at);
    }
    ranges_.emplace(start, end);
  }

 private:
  // The last byte of the address space counts for none.
  static std::uint64_t end_of(const JitGeneration& row) {
    return row.address + std::min(row.bytes, ~row.address);
  }

  std::map<std::uint64_t, std::uint64_t> ranges_;  // end by start
};

// Of the first `count` rows those of which a part was alive in the end, the oldest first.
std::vector<JitLayerRow> alive_of(const std::vector<JitLayerRow>& rows, std::size_t count) {
  std::vector<JitLayerRow> alive;
  AddressSet covered;
  for (std::size_t i = count; i > 0; --i) {
    const JitGeneration& row = *rows[i - 1].generation;
    if (covered.holds_all_of(row)) continue;
    covered.add(row);
    alive.push_back(rows[i - 1]);
  }
  std::ranges::reverse(alive);
  return alive;
}

// Without up to `count` of the oldest that nobody asked for lately.
std::vector<JitLayerRow> without_unasked(const std::vector<JitLayerRow>& rows, std::size_t count) {
  std::vector<JitLayerRow> kept;
  AddressSet covered;
  for (const JitLayerRow& row : rows) {
    const bool may_go =
        row.generation->was_asked_for == 0 && !covered.holds_any_of(*row.generation);
    if (count > 0 && may_go) {
      --count;
      continue;
    }
    if (count > 0) covered.add(*row.generation);
    kept.push_back(row);
  }
  return kept;
}

}  // namespace

JitRemembered forget_oldest(const std::vector<JitLayerRow>& rows) {
  const std::size_t half = (rows.size() + 1) / 2;
  const std::size_t wanted = (rows.size() + 3) / 4;
  JitRemembered left;
  if (rows.empty()) return left;
  left.complete_since_ns = rows[half - 1].generation->born_ns;
  left.rows = alive_of(rows, half);
  if (half - left.rows.size() < wanted)
    left.rows = without_unasked(left.rows, wanted - (half - left.rows.size()));
  if (half - left.rows.size() < wanted) left.rows.clear();
  left.rows.insert(left.rows.end(), rows.begin() + static_cast<std::ptrdiff_t>(half), rows.end());
  return left;
}

}  // namespace profd
