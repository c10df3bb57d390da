#include "collectors/unwinding/process_mappings.h"

#include <iterator>

#include "bpf/unwind_rows.h"

namespace profd {

FileKey vdso_key() { return {.inode = PROFD_VDSO_INODE}; }

JitCodeLocation jit_code_location(const ProcessKey& process, std::uint64_t address) {
  const std::uint64_t area = address >> PROFD_JIT_AREA_SHIFT;
  return {.key = {.inode = PROFD_JIT_CODE_INODE,
                  .size_bytes = process.start_ns,
                  .ctime_ns = static_cast<std::int64_t>(area),
                  .device = process.tgid,
                  .generation = process.exec_id},
          .offset = address - (area << PROFD_JIT_AREA_SHIFT)};
}

void ProcessMappings::add(const CodeMapping& mapping) {
  Process& process = touch(mapping.process);
  if (!remove_overlapped(process, mapping)) return;
  if (process.mappings.size() >= kMaxMappingsOfProcess) return;
  CodeMapping& kept = process.mappings.emplace(mapping.start, mapping).first->second;
  if (kept.kind == PROFD_MAPPING_VDSO) kept.file = vdso_key();
  ++size_;
  while (size_ > kMaxMappings && processes_.size() > 1) forget_oldest();
}

ProcessMappings::Process& ProcessMappings::touch(const ProcessKey& key) {
  const auto [place, added] = processes_.try_emplace(key, &memory_);
  if (added) {
    place->second.recency = recency_.insert(recency_.begin(), key);
  } else {
    recency_.splice(recency_.begin(), recency_, place->second.recency);
  }
  return place->second;
}

// False if a newer mapping overlaps: the rings are not drained in the order of time.
bool ProcessMappings::remove_overlapped(Process& process, const CodeMapping& mapping) {
  auto& mappings = process.mappings;
  auto first = mappings.upper_bound(mapping.start);
  if (first != mappings.begin() && std::prev(first)->second.end > mapping.start) --first;
  auto last = first;
  for (; last != mappings.end() && last->second.start < mapping.end; ++last) {
    if (last->second.time_ns > mapping.time_ns) return false;
  }
  size_ -= static_cast<std::size_t>(std::distance(first, last));
  mappings.erase(first, last);
  return true;
}

void ProcessMappings::forget_oldest() {
  const auto oldest = processes_.find(recency_.back());
  size_ -= oldest->second.mappings.size();
  processes_.erase(oldest);
  recency_.pop_back();
}

const CodeMapping* ProcessMappings::find(const ProcessKey& process, std::uint64_t address) const {
  const auto known = processes_.find(process);
  if (known == processes_.end()) return nullptr;
  const auto after = known->second.mappings.upper_bound(address);
  if (after == known->second.mappings.begin()) return nullptr;
  const CodeMapping& mapping = std::prev(after)->second;
  return address < mapping.end ? &mapping : nullptr;
}

}  // namespace profd
