#include "formats/jit/code_forgetting.h"

#include <algorithm>
#include <iterator>

namespace profd {
namespace {

// How many rows are sorted at once: that takes a millisecond.
constexpr std::size_t kSortedRows = 4096;

// Without the last byte of the address space.
auto addresses_of(const JitGeneration& row) {
  using Addresses = boost::icl::interval_set<std::uint64_t>;
  return Addresses::interval_type::right_open(row.address,
                                              row.address + std::min(row.bytes, ~row.address));
}

}  // namespace

JitForgetting::JitForgetting(const Rows& rows)
    : keeps_(rows.size(), true),
      half_((rows.size() + 1) / 2),
      most_(half_ - (rows.size() + 3) / 4),
      kept_(half_) {
  ages_.reserve(rows.size());
  for (const JitGeneration& row : rows) {
    ages_.push_back({.born_ns = row.born_ns, .row = static_cast<std::uint32_t>(ages_.size())});
  }
}

bool JitForgetting::step(const Rows& rows) {
  switch (phase_) {
    case Phase::kSort:
      if (next_ % kSortedRows == 0) sort_next();
      if (++next_ == half_) end_of_sort();
      break;
    case Phase::kEnded:
      forget_if_ended(ages_[--next_].row, rows);
      if (next_ == 0) end_of_ended();
      break;
    case Phase::kUnused:
      forget_if_unused(ages_[next_++].row, rows);
      if (next_ == half_) end_of_unused();
      break;
    case Phase::kDone:
      break;
  }
  return phase_ != Phase::kDone;
}

// Moves the oldest ones of the other rows to the front, in order.
void JitForgetting::sort_next() {
  const auto begin = ages_.begin() + static_cast<std::ptrdiff_t>(next_);
  const auto end =
      ages_.begin() + static_cast<std::ptrdiff_t>(std::min(half_, next_ + kSortedRows));
  if (end != ages_.end()) std::ranges::nth_element(begin, end, ages_.end());
  std::ranges::sort(begin, end);
}

void JitForgetting::end_of_sort() {
  ages_.resize(half_);
  complete_since_ns_ = ages_.back().born_ns;
  phase_ = Phase::kEnded;
}

void JitForgetting::forget(std::uint32_t row) {
  keeps_[row] = false;
  --kept_;
}

// The youngest rows come first: what they cover had ended by the half's end.
void JitForgetting::forget_if_ended(std::uint32_t row, const Rows& rows) {
  const auto addresses = addresses_of(rows[row]);
  if (boost::icl::contains(covered_, addresses)) {
    forget(row);
  } else {
    covered_.add(addresses);
  }
}

void JitForgetting::end_of_ended() {
  covered_ = {};
  phase_ = kept_ > most_ ? Phase::kUnused : Phase::kDone;
}

// The oldest rows come first. One that covers an older row stays: without it, the older one would
// be taken for what lived there.
void JitForgetting::forget_if_unused(std::uint32_t row, const Rows& rows) {
  if (!keeps_[row]) return;
  const auto addresses = addresses_of(rows[row]);
  const bool is_unused = rows[row].was_used == 0;
  if (kept_ > most_ && is_unused && !boost::icl::intersects(covered_, addresses)) {
    forget(row);
  } else {
    covered_.add(addresses);
  }
}

void JitForgetting::end_of_unused() {
  covered_ = {};
  phase_ = Phase::kDone;
  if (kept_ <= most_) return;
  for (const Age& age : ages_) keeps_[age.row] = false;
  kept_ = 0;
}

}  // namespace profd
