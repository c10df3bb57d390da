// The mappings of one process as several profiles have them, one after the other, brought into one
// address space in which every address means one thing.
//
// The profiles of continuous mode are cut by time, and a process maps and unmaps between them. What
// agrees is united: the same object at the same place, or more of it. A mapping that contradicts an
// earlier one moves, with its frames, to a range of its own above every real address, as do frames
// in no mapping where another profile has one. So no frame is ever given to a wrong file. Kernel
// images are looked up at absolute addresses, so a profile with another kernel does not fit at all.
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
  // [start, end) of one profile lies `shift` higher (modulo 2^64) in the union.
  struct Placement {
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    std::uint64_t shift = 0;
  };

  // Takes the mappings of one more profile; the placements are sorted by start. Nothing, and no
  // change: one of them is of another kernel or overlaps another of its own profile, or there is no
  // more room to move them to.
  [[nodiscard]] std::optional<std::vector<Placement>> place(
      std::span<const ProfileMapping> mappings);

  // The union's place of an address that no mapping of its profile has. To be asked after place().
  [[nodiscard]] std::uint64_t place_unmapped(std::uint64_t address);

  // The executable's first where a profile told which it is, then by address.
  [[nodiscard]] std::vector<ProfileMapping> lines() const;

  [[nodiscard]] std::size_t size() const { return pieces_.size() + unmapped_pages_.size(); }

 private:
  struct Piece {
    std::uint64_t end = 0;
    std::uint64_t file_offset = 0;
    std::string path;
  };
  // Above all user addresses (2^47), the folded kernel's (profile.h) and those that a profile
  // itself has moved (from 2^53 on); bit 55 stays clear.
  static constexpr std::uint64_t kMovedBase = std::uint64_t{3} << 52;

  using Pieces = std::map<std::uint64_t, Piece>;

  [[nodiscard]] bool has_room_for(std::span<const ProfileMapping> mappings) const;
  [[nodiscard]] bool is_of_this_kernel(const ProfileMapping& mapping) const;
  [[nodiscard]] std::pair<Pieces::iterator, Pieces::iterator> overlapped_by(std::uint64_t start,
                                                                            std::uint64_t end);
  [[nodiscard]] bool has_unmapped_in(std::uint64_t start, std::uint64_t end) const;
  [[nodiscard]] bool agrees(const ProfileMapping& mapping);
  void unite(const ProfileMapping& mapping);
  void skip_taken(std::uint64_t bytes);
  [[nodiscard]] std::uint64_t move_away(const ProfileMapping& mapping);
  void learn_executable(std::span<const ProfileMapping> mappings);

  Pieces pieces_;  // by start, not overlapping
  std::map<std::tuple<std::string, std::uint64_t, std::uint64_t>, std::uint64_t> moved_;
  std::set<std::uint64_t> unmapped_pages_;  // that have frames in no mapping, where they were
  std::uint64_t next_free_ = kMovedBase;
  std::string kernel_;  // the path of its image, once one was met
  std::string executable_;
};

}  // namespace profd
