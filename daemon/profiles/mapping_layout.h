// The addresses of a process's code in its profile: one mapping line for each contiguous part of an
// object. No two lines overlap.
//
// The format has no time, so an address can mean one thing only. Mappings of one object that fit
// together (the same range seen twice, a range that was split or grew) become one line. If two
// objects had the same addresses one after the other, the newer one keeps them, and the frames of
// the older one move to a range of their own above every real address. Used on the worker.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "daemon/profiles/object_images.h"
#include "daemon/samples/process_table.h"
#include "daemon/samples/snapshot.h"
#include "formats/profile/profile.h"

namespace profd {

// Above all user addresses and folded kernel addresses. Bit 55 stays clear (see
// fold_kernel_address).
inline constexpr std::uint64_t kMovedMappingsBase = std::uint64_t{1} << 53;

// A contiguous part of an object, which lies at [start, end) in the process and gets one mapping
// line.
struct ObjectPart {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t file_offset = 0;
  std::uint64_t newest_ns = 0;
  std::uint64_t shift = 0;  // added to the process's addresses in the profile
  bool main_executable = false;
  bool may_be_jit = false;  // lines of a JIT image may replace its line
  std::shared_ptr<const MappedFile> file;
  ProfiledObject* object = nullptr;

  [[nodiscard]] std::uint64_t offset_of(std::uint64_t address) const {
    return address - start + file_offset;
  }
};

class MappingLayout {
 public:
  // Lays out the mappings that the stacks of `process` refer to. `objects` must outlive *this.
  MappingLayout(const ProcessSnapshot& process, ObjectImages& objects);

  // Null: no record of the mapping has arrived.
  [[nodiscard]] const ObjectPart* find(std::uint64_t mapping_id) const;

  // The line of the executable first, then by address.
  [[nodiscard]] std::vector<ProfileMapping> lines() const;

  // Without the lines of mappings that may hold JIT code.
  [[nodiscard]] std::vector<ProfileMapping> lines_of_files() const;

 private:
  void join(const ProcessSnapshot& process, ObjectImages& objects);
  void move_older_from_newer();

  std::vector<ObjectPart> parts_;
  std::map<std::uint64_t, std::size_t> by_id_;
};

}  // namespace profd
