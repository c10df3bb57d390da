// Merges several profiles of one process, taken one after the other, into one.
//
// The counts of equal stacks are added, and mapping_union.h unites the mappings. The sum of the
// samples is exact. A value without thread affinity; pure.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "formats/profile/mapping_union.h"
#include "formats/profile/profile.h"

namespace profd {

class ProfileMerge {
 public:
  // `hash_seed` should be random: processes choose their own addresses.
  explicit ProfileMerge(std::uint64_t hash_seed) : hash_seed_(hash_seed) {}

  // False: the profile has another period, or does not fit (see MappingUnion::place). Nothing is
  // changed, and the caller must keep that profile separate.
  [[nodiscard]] bool add(const Profile& profile);

  [[nodiscard]] std::size_t stacks() const { return stacks_.size(); }

  // An upper bound of the memory held.
  [[nodiscard]] std::uint64_t bytes() const;

  // Stacks are in the order of their first addition. Mapping paths are unchanged; no build_dir.
  [[nodiscard]] Profile profile() const;

 private:
  struct Stack {
    std::uint64_t count = 0;
    std::size_t first_pc = 0;
    std::uint32_t depth = 0;
    std::uint32_t next_of_hash = 0;  // index + 1 of another stack with the same hash; 0: none
  };
  struct HashIsGood {
    using is_avalanching = void;
    std::size_t operator()(std::uint64_t hash) const noexcept { return hash; }
  };

  void translate(std::span<const std::uint64_t> pcs,
                 std::span<const MappingUnion::Placement> placements);
  void add_translated(std::uint64_t count);
  [[nodiscard]] std::span<const std::uint64_t> pcs(const Stack& stack) const;

  std::uint64_t hash_seed_;
  std::uint64_t period_ = 0;  // 0: no profile was added
  MappingUnion mappings_;
  boost::unordered_flat_map<std::uint64_t, std::uint32_t, HashIsGood> first_of_hash_;
  std::vector<Stack> stacks_;
  std::vector<std::uint64_t> pcs_;
  std::vector<std::uint64_t> translated_;  // the stack that is being added
};

}  // namespace profd
