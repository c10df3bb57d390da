// Unites the mappings that several profiles of one process have, taken one after the other, into
// one address space in which every address has one meaning.
//
// The profiles of continuous mode are cut by time, and a process maps and unmaps between them.
// Mappings of the same object at the same place are united, also where one is larger. A mapping
// that contradicts an earlier one moves, with its frames, to a range of its own above every real
// address. So do frames without a mapping where another profile has one. So no frame is ever
// attributed to a wrong file. Kernel images are looked up at absolute addresses, so a profile with
// another kernel does not fit at all.
//
// A value without thread affinity. Pure.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "formats/profile/profile.h"

namespace profd {

class MappingUnion {
 public:
  // [start, end) of a profile is `shift` bytes higher (modulo 2^64) in the union.
  struct Placement {
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    std::uint64_t shift = 0;
  };

  // Adds the mappings of one more profile. The placements are sorted by start. None, and nothing
  // changes: a mapping is of another kernel, two of the mappings overlap, or the space for moved
  // mappings is full.
  [[nodiscard]] std::optional<std::vector<Placement>> place(
      std::span<const ProfileMapping> mappings);

  // The address in the union for an address without a mapping in its profile. Call it after
  // place() for that profile.
  [[nodiscard]] std::uint64_t place_unmapped(std::uint64_t address);

  // Those of the main executable, if a profile shows which it is, then the others by address.
  [[nodiscard]] std::vector<ProfileMapping> mappings() const;

  [[nodiscard]] std::size_t size() const { return regions_.size() + unmapped_pages_.size(); }

 private:
  // Above all user addresses (2^47), the folded ones of the kernel (profile.h), and the synthetic
  // ones of JIT code (from 2^53 on); bit 55 stays clear.
  static constexpr std::uint64_t kMovedBase = std::uint64_t{3} << 52;

  using Regions = std::map<std::uint64_t, ProfileMapping>;  // by start, not overlapping

  [[nodiscard]] bool has_room_for(std::span<const ProfileMapping> mappings) const;
  [[nodiscard]] bool is_of_this_kernel(const ProfileMapping& mapping) const;
  [[nodiscard]] std::pair<Regions::iterator, Regions::iterator> overlapped_by(std::uint64_t start,
                                                                              std::uint64_t end);
  [[nodiscard]] bool has_unmapped_in(std::uint64_t start, std::uint64_t end) const;
  [[nodiscard]] bool agrees(const ProfileMapping& mapping);
  void unite(const ProfileMapping& mapping);
  void skip_used(std::uint64_t bytes);
  [[nodiscard]] std::uint64_t move_away(const ProfileMapping& mapping);
  void find_executable(std::span<const ProfileMapping> mappings);

  Regions regions_;
  std::map<std::tuple<std::string, std::uint64_t, std::uint64_t>, std::uint64_t> moved_;
  std::set<std::uint64_t> unmapped_pages_;  // pages of unmapped frames that kept their address
  std::uint64_t next_free_ = kMovedBase;
  std::string kernel_;  // the path of the kernel image; empty: unknown
  std::string executable_;
};

}  // namespace profd
