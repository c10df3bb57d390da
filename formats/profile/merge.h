// Several profiles of one process, taken one after the other, as one.
//
// Equal stacks add up; mappings are united as mapping_union.h tells. The sum of the samples is
// exact. A value without thread affinity; pure.

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

  // False, and no change: it has another period, or another kernel (see MappingUnion::place), so it
  // belongs in a profile of its own.
  [[nodiscard]] bool add(const Profile& profile);

  [[nodiscard]] std::size_t stacks() const { return stacks_.size(); }

  // An upper bound of the memory held.
  [[nodiscard]] std::uint64_t bytes() const;

  // Stacks in the order in which they were first met. Mapping paths as they came; without a
  // build_dir.
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
  std::uint64_t period_ = 0;  // 0: none was added yet
  MappingUnion mappings_;
  boost::unordered_flat_map<std::uint64_t, std::uint32_t, HashIsGood> first_of_hash_;
  std::vector<Stack> stacks_;
  std::vector<std::uint64_t> pcs_;
  std::vector<std::uint64_t> translated_;  // of the stack at hand
};

}  // namespace profd
