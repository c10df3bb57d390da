// Memory in which processes run JIT code: which memory that is, and the ranges that samples have
// found, so that their unmapping can end the code. For the io thread.

#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "collectors/bpf/sample.h"

namespace profd {

// Whether JIT code may lie in a mapping: it has no file, or the file is shared memory (a memfd,
// SysV or anonymous shared memory), or it is a deleted file of /dev/shm or /tmp that was not named
// as a library. Java programs unpack libraries to /tmp, load and delete them there. `path` may lack
// its leading slash.
[[nodiscard]] bool may_be_jit_code(profd_mapping_kind kind, const FileKey& file,
                                   std::string_view path, bool is_deleted);
[[nodiscard]] bool may_be_jit_code(const MappingView& mapping);

// The ranges of one process. Where there are more than kMaxRanges, the two with the smallest gap
// become one.
class JitCodeRanges {
 public:
  static constexpr std::size_t kMaxRanges = PROFD_WATCHED_SPANS;

  // False: it was known.
  bool add(const AddressRange& memory);

  // Sorted; no range touches another.
  [[nodiscard]] std::span<const AddressRange> all() const { return ranges_; }

 private:
  void join_nearest();

  std::vector<AddressRange> ranges_;
};

}  // namespace profd
