#include "collectors/jit/code_memory.h"

#include <algorithm>
#include <iterator>

namespace profd {
namespace {

// "libfoo.so", "libfoo.so.6", "addon.node".
bool has_library_name(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return name.ends_with(".so") || name.ends_with(".node") ||
         name.find(".so.") != std::string_view::npos;
}

}  // namespace

bool may_be_jit_code(profd_mapping_kind kind, const FileKey& file, std::string_view path,
                     bool is_deleted) {
  if (kind != PROFD_MAPPING_FILE) return kind == PROFD_MAPPING_ANONYMOUS;
  // The kernel's own mount for shared memory, 00:01: it is the first mount without a device. The
  // path may be unknown: while a runtime writes code that is not executable meanwhile, the kernel
  // joins the memory with its neighbours.
  constexpr std::uint32_t kSharedMemoryDevice = 1;
  if (file.device == kSharedMemoryDevice) return true;
  if (path.starts_with('/')) path.remove_prefix(1);
  const auto is_in_one_of = [path](auto... places) { return (path.starts_with(places) || ...); };
  return is_in_one_of("memfd:", "dev/zero", "SYSV") ||
         (is_deleted && is_in_one_of("dev/shm/", "tmp/") && !has_library_name(path));
}

bool may_be_jit_code(const MappingView& mapping) {
  return may_be_jit_code(mapping.kind, mapping.file, mapping.names, false);
}

bool JitCodeRanges::add(const AddressRange& memory) {
  const auto first = std::ranges::lower_bound(ranges_, memory.start, {}, &AddressRange::end);
  const auto last = std::ranges::upper_bound(ranges_, memory.end, {}, &AddressRange::start);
  AddressRange whole = memory;
  if (first != last) {
    whole.start = std::min(first->start, memory.start);
    whole.end = std::max(std::prev(last)->end, memory.end);
    if (*first == whole) return false;
  }
  ranges_.insert(ranges_.erase(first, last), whole);
  if (ranges_.size() > kMaxRanges) join_nearest();
  return true;
}

void JitCodeRanges::join_nearest() {
  auto nearest = ranges_.begin();
  for (auto range = nearest; std::next(range) != ranges_.end(); ++range) {
    if (range[1].start - range->end < nearest[1].start - nearest->end) nearest = range;
  }
  nearest->end = nearest[1].end;
  ranges_.erase(std::next(nearest));
}

}  // namespace profd
