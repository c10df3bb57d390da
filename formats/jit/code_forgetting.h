// Chooses which rows of a code index are forgotten, in steps of less than a microsecond on average,
// since a choice among 262,144 rows takes a fifth of a second. A value without thread affinity.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include <boost/icl/interval_set.hpp>

#include "formats/jit/code_index.h"

namespace profd {

// At least a quarter goes. Of the older half, that is what had ended by the half's end; if this is
// too little, also the oldest code that was no answer lately; if it still is, the whole half. No
// answer is wrong afterwards: a row that covers an older one is not forgotten before that.
class JitForgetting {
 public:
  using Rows = std::deque<JitGeneration>;

  // Chooses among the rows that are there now, one at least. More may be appended before the choice
  // is made; they stay.
  explicit JitForgetting(const Rows& rows);

  // `rows` are the same ones. False: the choice is made.
  [[nodiscard]] bool step(const Rows& rows);

  // The choice.
  [[nodiscard]] bool keeps(std::size_t row) const { return row >= keeps_.size() || keeps_[row]; }
  [[nodiscard]] std::size_t forgotten() const { return half_ - kept_; }
  // What ended before may be forgotten.
  [[nodiscard]] std::uint64_t complete_since_ns() const { return complete_since_ns_; }

 private:
  struct Age {
    std::uint64_t born_ns = 0;
    std::uint32_t row = 0;  // rows with equal times are in the order of their serials
    friend auto operator<=>(const Age&, const Age&) = default;
  };
  using Addresses = boost::icl::interval_set<std::uint64_t>;

  void sort_next();
  void end_of_sort();
  void forget_if_ended(std::uint32_t row, const Rows& rows);
  void forget_if_unused(std::uint32_t row, const Rows& rows);
  void forget(std::uint32_t row);
  void end_of_ended();
  void end_of_unused();

  enum class Phase : std::uint8_t { kSort, kEnded, kUnused, kDone };

  Phase phase_ = Phase::kSort;
  std::vector<Age> ages_;    // in the end of the older half, the oldest first
  std::vector<bool> keeps_;  // by row
  std::size_t half_ = 0;     // how many rows that is
  std::size_t most_ = 0;     // how many of them may stay
  std::size_t kept_ = 0;     // how many of them stay
  std::size_t next_ = 0;     // of ages_
  Addresses covered_;
  std::uint64_t complete_since_ns_ = 0;
};

}  // namespace profd
