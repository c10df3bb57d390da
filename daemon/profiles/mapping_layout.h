// Where a process's code lies in its profile: one line for each piece of an object, none on
// another.
//
// The format has no time, so an address can mean one thing only. Mappings of one object that fit
// together (the same range met twice, a range that was split or grew) become one line. Where two
// objects had the same addresses one after the other, the newer one keeps them, and the older one's
// frames move to a range of their own above every real address. Used on the worker.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "daemon/profiles/profiled_object.h"
#include "daemon/samples/process_table.h"
#include "daemon/samples/snapshot.h"
#include "formats/profile/profile.h"

namespace profd {

// Above all user addresses and the folded kernel's; bit 55 stays clear (see fold_kernel_address).
inline constexpr std::uint64_t kMovedMappingsBase = std::uint64_t{1} << 53;

// A piece of an object at [start, end) in the process.
struct PlacedMapping {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t file_offset = 0;
  std::uint64_t newest_ns = 0;
  std::uint64_t shift = 0;  // from the process's addresses to the profile's
  bool main_executable = false;
  bool may_be_made = false;  // at run time: its lines give way to those of an image
  std::shared_ptr<const MappedFile> file;
  ProfiledObject* object = nullptr;

  [[nodiscard]] std::uint64_t offset_of(std::uint64_t address) const {
    return address - start + file_offset;
  }
};

class MappingLayout {
 public:
  // Of the mappings that the stacks of `process` name. `objects` must outlive *this.
  MappingLayout(const ProcessSnapshot& process, ProfiledObjects& objects);

  // Null for a mapping of which no record came.
  [[nodiscard]] const PlacedMapping* find(std::uint64_t mapping_id) const;

  // The executable's first, then by address.
  [[nodiscard]] std::vector<ProfileMapping> lines() const;

  // Without those where code may have been made at run time.
  [[nodiscard]] std::vector<ProfileMapping> lines_of_files() const;

 private:
  void join(const ProcessSnapshot& process, ProfiledObjects& objects);
  void move_older_from_newer();

  std::vector<PlacedMapping> placed_;
  std::map<std::uint64_t, std::size_t> by_id_;
};

}  // namespace profd
