// The ids by which the entries of a profile's tables refer to each other (pprof_format.h).

#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace profd {

// The ids of one table. Nearly all writers number the entries 1 to n in order.
class PprofIds {
 public:
  // In the order of the entries.
  void add(std::uint64_t id) {
    if (is_in_order_ && id == count_ + 1) {
      ++count_;
      return;
    }
    if (std::exchange(is_in_order_, false)) {
      for (std::uint32_t i = 0; i < count_; ++i) ids_.emplace_back(i + 1, i);
    }
    ids_.emplace_back(id, count_++);
  }
  // Before the first find(). False: an id is 0, or there twice.
  [[nodiscard]] bool finish() {
    if (is_in_order_) return true;
    std::ranges::sort(ids_);
    const auto twice =
        std::ranges::adjacent_find(ids_, {}, &std::pair<std::uint64_t, std::uint32_t>::first);
    return twice == ids_.end() && ids_.front().first != 0;
  }
  // With n entries, n if id i is that of entry i - 1, otherwise 0: find() for a long list of ids.
  [[nodiscard]] std::uint32_t count_in_order() const { return is_in_order_ ? count_ : 0; }
  [[nodiscard]] std::optional<std::uint32_t> find(std::uint64_t id) const {
    if (is_in_order_) {
      if (id - 1 >= count_) return std::nullopt;
      return static_cast<std::uint32_t>(id - 1);
    }
    const auto found = std::ranges::lower_bound(ids_, std::pair(id, 0U));
    if (found == ids_.end() || found->first != id) return std::nullopt;
    return found->second;
  }

 private:
  std::vector<std::pair<std::uint64_t, std::uint32_t>> ids_;  // empty while they are in order
  std::uint32_t count_ = 0;
  bool is_in_order_ = true;
};

}  // namespace profd
