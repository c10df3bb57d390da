#include "formats/profile/merge.h"

#include <algorithm>

#include "formats/base/seeded_hash.h"

namespace profd {
namespace {

using Placement = MappingUnion::Placement;

// Estimates: a slot of the index, and a node of a map or set.
constexpr std::uint64_t kIndexBytes = 24;
constexpr std::uint64_t kNodeBytes = 160;

// Null: no placement contains the address. Most frames lie in the mapping of their callee, `last`.
const Placement* find(std::span<const Placement> placements, const Placement* last,
                      std::uint64_t address) {
  if (last != nullptr && address - last->start < last->end - last->start) return last;
  const auto after = std::ranges::upper_bound(placements, address, {}, &Placement::start);
  if (after == placements.begin()) return nullptr;
  const Placement* const found = &*std::prev(after);
  return address < found->end ? found : nullptr;
}

}  // namespace

bool ProfileMerge::add(const Profile& profile) {
  if (period_ != 0 && period_ != profile.period) return false;
  const auto placements = mappings_.place(profile.mappings);
  if (!placements) return false;
  period_ = profile.period;
  for (const Profile::Record& record : profile.records()) {
    translate(profile.pcs(record), *placements);
    add_translated(record.count);
  }
  return true;
}

// Readers look up a caller at the byte before its address (gperftools_format.h).
void ProfileMerge::translate(std::span<const std::uint64_t> pcs,
                             std::span<const Placement> placements) {
  translated_.resize(pcs.size());
  const Placement* placement = nullptr;
  for (std::size_t i = 0; i < pcs.size(); ++i) {
    const std::uint64_t before = i == 0 ? 0 : 1;
    const std::uint64_t address = pcs[i] - before;
    placement = find(placements, placement, address);
    translated_[i] = placement != nullptr ? pcs[i] + placement->shift
                                          : mappings_.place_unmapped(address) + before;
  }
}

void ProfileMerge::add_translated(std::uint64_t count) {
  SeededHash hash(hash_seed_);
  hash.add(translated_);
  std::uint32_t& first = first_of_hash_[hash.value()];
  for (std::uint32_t next = first; next != 0; next = stacks_[next - 1].next_of_hash) {
    if (std::ranges::equal(pcs(stacks_[next - 1]), translated_)) {
      stacks_[next - 1].count += count;
      return;
    }
  }
  stacks_.push_back({.count = count,
                     .first_pc = pcs_.size(),
                     .depth = static_cast<std::uint32_t>(translated_.size()),
                     .next_of_hash = first});
  pcs_.insert(pcs_.end(), translated_.begin(), translated_.end());
  first = static_cast<std::uint32_t>(stacks_.size());
}

std::span<const std::uint64_t> ProfileMerge::pcs(const Stack& stack) const {
  return std::span(pcs_).subspan(stack.first_pc, stack.depth);
}

std::uint64_t ProfileMerge::bytes() const {
  return pcs_.capacity() * sizeof(std::uint64_t) + stacks_.capacity() * sizeof(Stack) +
         2 * kIndexBytes * stacks_.size() + kNodeBytes * mappings_.size();
}

Profile ProfileMerge::profile() const {
  Profile profile;
  profile.period = period_;
  profile.mappings = mappings_.mappings();
  for (const Stack& stack : stacks_) profile.add_record(pcs(stack), stack.count);
  return profile;
}

}  // namespace profd
