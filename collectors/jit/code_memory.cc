#include "collectors/jit/code_memory.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace profd {

// The kernel's own mount, which it makes before all others of no device.
bool is_shared_memory(const FileKey& file) {
  constexpr std::uint32_t kSharedMemoryDevice = 1;  // 00:01
  return file.device == kSharedMemoryDevice;
}

bool is_jit_code(const MappingView& mapping) {
  if (mapping.kind == PROFD_MAPPING_ANONYMOUS) return true;
  if (mapping.kind != PROFD_MAPPING_FILE) return false;
  if (is_shared_memory(mapping.file)) return true;
  constexpr std::string_view kNames[] = {"memfd:", "dev/zero", "SYSV"};
  return std::ranges::any_of(
      kNames, [&mapping](std::string_view name) { return mapping.names.starts_with(name); });
}

bool JitCodeRanges::add(const AddressRange& memory) {
  const auto first = std::ranges::lower_bound(spans_, memory.start, {}, &AddressRange::end);
  const auto last = std::ranges::upper_bound(spans_, memory.end, {}, &AddressRange::start);
  AddressRange whole = memory;
  if (first != last) {
    whole.start = std::min(first->start, memory.start);
    whole.end = std::max(std::prev(last)->end, memory.end);
    if (*first == whole) return false;
  }
  spans_.insert(spans_.erase(first, last), whole);
  if (spans_.size() > kMaxSpans) join_nearest();
  return true;
}

void JitCodeRanges::join_nearest() {
  auto nearest = spans_.begin();
  for (auto span = nearest; std::next(span) != spans_.end(); ++span) {
    if (span[1].start - span->end < nearest[1].start - nearest->end) nearest = span;
  }
  nearest->end = nearest[1].end;
  spans_.erase(std::next(nearest));
}

void JitCodeMemory::Process::tell(const ProcessKey& key, Need need, const Watch& watch) {
  if (need == Need::kNow && is_due) {
    watch(key, spans.all());
    is_due = false;
    is_watched = true;
  } else if (need == Need::kNoMore && is_watched) {
    watch(key, {});
  }
}

void JitCodeMemory::add(const ProcessKey& process, const AddressRange& memory, Need need,
                        const Watch& watch) {
  Process& known = processes_[process];
  if (known.spans.add(memory)) known.is_due = true;
  known.tell(process, need, watch);
}

void JitCodeMemory::tell(const std::function<Need(const ProcessKey&)>& need_of,
                         const Watch& watch) {
  for (auto entry = processes_.begin(); entry != processes_.end();) {
    auto& [key, process] = *entry;
    const Need need = need_of(key);
    process.tell(key, need, watch);
    entry = need == Need::kNoMore ? processes_.erase(entry) : std::next(entry);
  }
}

}  // namespace profd
