#include "formats/profile/profile.h"

#include <algorithm>
#include <numeric>

#include "formats/profile/gperftools_format.h"

namespace profd {
namespace {

constexpr std::uint64_t kKernelHalf = std::uint64_t{1} << 63;
constexpr std::uint64_t kFoldedBit = std::uint64_t{1} << 52;
constexpr std::uint64_t kFoldedBits = (std::uint64_t{1} << 48) - 1;

std::uint64_t written_leaf(const Frame& leaf) {
  return std::max(fold_kernel_address(leaf.pc), gperftools::kNoAddress);
}

std::uint64_t written_caller(const Frame& caller) {
  const std::uint64_t exact = caller.kind == PcKind::kExact ? 1 : 0;
  return std::max(fold_kernel_address(caller.pc) + exact, gperftools::kNoAddress);
}

// The first caller of a stack whose leaf is written as `leaf`, and differs from it.
std::uint64_t written_first_caller(const Frame& caller, std::uint64_t leaf) {
  const std::uint64_t pc = written_caller(caller);
  const bool copy = pc == leaf && caller.kind == PcKind::kReturnAddress;
  return copy && pc > gperftools::kNoAddress ? pc - 1 : pc;
}

}  // namespace

void Profile::add_stack(std::span<const Frame> frames, std::uint64_t count) {
  if (count == 0) return;
  frames = frames.first(std::min<std::size_t>(frames.size(), gperftools::kMaxDepth));
  const std::size_t depth = std::max<std::size_t>(frames.size(), 1);
  records_.push_back({count, pcs_.size(), depth});
  pcs_.resize(pcs_.size() + depth, gperftools::kNoAddress);
  const auto pcs = std::span(pcs_).last(depth);
  if (!frames.empty()) pcs[0] = written_leaf(frames[0]);
  if (depth > 1) pcs[1] = written_first_caller(frames[1], pcs[0]);
  for (std::size_t i = 2; i < depth; ++i) pcs[i] = written_caller(frames[i]);
}

void Profile::add_record(std::span<const std::uint64_t> pcs, std::uint64_t count) {
  records_.push_back({count, pcs_.size(), pcs.size()});
  pcs_.insert(pcs_.end(), pcs.begin(), pcs.end());
}

std::span<const std::uint64_t> Profile::pcs(const Record& record) const {
  return std::span(pcs_).subspan(record.first, record.depth);
}

std::uint64_t Profile::samples() const {
  return std::accumulate(
      records_.begin(), records_.end(), std::uint64_t{0},
      [](std::uint64_t sum, const Record& record) { return sum + record.count; });
}

std::uint64_t fold_kernel_address(std::uint64_t address) {
  return address >= kKernelHalf ? (address & kFoldedBits) | kFoldedBit : address;
}

std::uint64_t unfold_kernel_address(std::uint64_t folded) {
  const bool is_folded = (folded & ~kFoldedBits) == kFoldedBit;
  return is_folded ? (folded & kFoldedBits) | ~kFoldedBits : folded;
}

}  // namespace profd
