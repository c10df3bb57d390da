#include "collectors/jit/function_blocks.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace profd {
namespace {

using Functions = JitFunctionBlocks::Functions;

struct Range {
  std::ptrdiff_t first = 0;
  std::ptrdiff_t end = 0;
};

// Those that overlap the addresses. The ends of functions rise as their starts do.
Range range_of(const Functions& functions, std::uint64_t start, std::uint64_t end) {
  const auto first = std::ranges::partition_point(
      functions, [start](const JitFunctionRows& function) { return function.end() <= start; });
  const auto last = std::partition_point(
      first, functions.end(),
      [end](const JitFunctionRows& function) { return function.start() < end; });
  return {.first = first - functions.begin(), .end = last - functions.begin()};
}

// The block before the one of the address: its last function may reach beyond the address.
auto block_before(auto& blocks, std::uint64_t address) {
  auto at = blocks.upper_bound(address);
  for (int steps = 0; steps < 2 && at != blocks.begin(); ++steps) --at;
  return at;
}

}  // namespace

JitFunctionRows::JitFunctionRows(const JitUnwindRows& function)
    : start_(function.start), end_(function.end), count_(function.rows.size()) {
  auto rows = std::make_shared<UnwindRow[]>(count_);
  std::ranges::copy(function.rows, rows.get());
  rows_ = std::move(rows);
}

JitFunctionBlocks JitFunctionBlocks::share() {
  ++version_;
  return *this;
}

void JitFunctionBlocks::insert(JitFunctionRows function) {
  const std::uint64_t start = function.start();
  if (blocks_.empty()) add_block(0, {});
  Functions& functions = to_change(std::prev(blocks_.upper_bound(start))->second);
  const auto place = std::ranges::partition_point(
      functions, [start](const JitFunctionRows& other) { return other.start() < start; });
  functions.insert(place, std::move(function));
  ++size_;
  if (functions.size() <= kMaxBlock) return;
  const auto half = functions.begin() + static_cast<std::ptrdiff_t>(functions.size() / 2);
  Functions upper(std::make_move_iterator(half), std::make_move_iterator(functions.end()));
  functions.erase(half, functions.end());
  const std::uint64_t from = upper.front().start();
  add_block(from, std::move(upper));
}

Functions JitFunctionBlocks::find(std::uint64_t start, std::uint64_t end) const {
  Functions found;
  for (auto at = block_before(blocks_, start); at != blocks_.end() && at->first < end; ++at) {
    const Functions& functions = at->second->functions;
    const Range range = range_of(functions, start, end);
    found.insert(found.end(), functions.begin() + range.first, functions.begin() + range.end);
  }
  return found;
}

Functions JitFunctionBlocks::take(std::uint64_t start, std::uint64_t end) {
  Functions taken;
  for (auto at = block_before(blocks_, start); at != blocks_.end() && at->first < end;) {
    const Range range = range_of(at->second->functions, start, end);
    if (range.first != range.end) {
      Functions& functions = to_change(at->second);
      const auto first = functions.begin() + range.first;
      const auto last = functions.begin() + range.end;
      taken.insert(taken.end(), std::make_move_iterator(first), std::make_move_iterator(last));
      functions.erase(first, last);
    }
    const bool is_needed = at->first == 0 || !at->second->functions.empty();
    at = is_needed ? std::next(at) : blocks_.erase(at);
  }
  size_ -= taken.size();
  if (!taken.empty()) join_around(start);
  return taken;
}

JitFunctionBlocks::Functions& JitFunctionBlocks::to_change(std::shared_ptr<Block>& block) const {
  if (block->version != version_) {
    block = std::make_shared<Block>(Block{.version = version_, .functions = block->functions});
  }
  return block->functions;
}

void JitFunctionBlocks::add_block(std::uint64_t from, Functions functions) {
  blocks_.emplace(
      from, std::make_shared<Block>(Block{.version = version_, .functions = std::move(functions)}));
}

// Joins blocks that have become small, near an address from which on functions were removed: what
// is left of the first and of the last block with such functions, and their neighbours.
void JitFunctionBlocks::join_around(std::uint64_t address) {
  constexpr int kPairs = 4;
  auto at = blocks_.upper_bound(address);
  for (int steps = 0; steps < 3 && at != blocks_.begin(); ++steps) --at;
  for (int pairs = 0; pairs < kPairs && at != blocks_.end();) {
    const auto next = std::next(at);
    if (next == blocks_.end()) return;
    const Functions& more = next->second->functions;
    if (at->second->functions.size() + more.size() > kMaxBlock / 2) {
      at = next;
      ++pairs;
      continue;
    }
    Functions& functions = to_change(at->second);
    functions.insert(functions.end(), more.begin(), more.end());
    blocks_.erase(next);
  }
}

}  // namespace profd
