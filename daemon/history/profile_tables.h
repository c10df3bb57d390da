// The tables of a profile, to merge its samples anew with other stacks.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "formats/profile/pprof_profile.h"
#include "formats/profile/pprof_tables.h"

namespace profd {

// Borrows from the profile.
class TablesOfProfile {
 public:
  explicit TablesOfProfile(const PprofProfile& profile);

  // Adds a location that stands for others, with `name` as its function and its mapping.
  std::uint32_t add_substitute(std::string_view name);

  // Makes the name of each function its mangled name.
  void drop_system_names();

  // Adds a sample of the profile with this stack of locations, the leaf first, and this set of its
  // labels.
  void add(std::size_t place, std::span<const std::uint32_t> frames, std::uint32_t label_set);

  // The same with its own set of labels.
  void add(std::size_t place, std::span<const std::uint32_t> frames);

  // Replaces the profile by the samples that were added, with the same header. Ends the use of
  // *this. False: nothing is changed.
  bool replace(PprofProfile& profile) const;

 private:
  std::uint32_t text(std::string_view text);
  void add(const PprofLocation& from);

  const PprofProfile& profile_;
  PprofTables to_;
};

}  // namespace profd
