#include "collectors/unwinding/process_mappings.h"

#include <algorithm>
#include <iterator>

#include "bpf/unwind_rows.h"
#include "collectors/unwinding/nanoseconds.h"

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

void ProcessMappings::add(const CodeMapping& mapping, std::uint32_t user) {
  Process& process = touch(mapping.process, user);
  if (!remove_overlapped(process, mapping)) return;
  if (process.mappings.size() >= kMaxMappingsOfProcess) return;
  CodeMapping& kept = process.mappings.emplace(mapping.start, mapping).first->second;
  if (kept.kind == PROFD_MAPPING_VDSO) kept.file = vdso_key();
  ++size_;
  ++users_.at(process.user).mappings;
  if (size_ > kMaxMappings) forget_one();
}

// The user stays the one of the first mapping.
ProcessMappings::Process& ProcessMappings::touch(const ProcessKey& key, std::uint32_t user) {
  const auto [place, added] = processes_.try_emplace(key);
  Process& process = place->second;
  if (added) process.user = user;
  std::list<ProcessKey>& recency = users_[process.user].recency;
  if (added) {
    process.recency = recency.insert(recency.begin(), key);
  } else {
    recency.splice(recency.begin(), recency, process.recency);
  }
  return process;
}

void ProcessMappings::forget_one() {
  constexpr std::uint32_t kRoot = 0;
  const auto root = users_.find(kRoot);
  const std::size_t of_root = root == users_.end() ? 0 : root->second.mappings;
  const auto of_user = [](const auto& entry) {
    return entry.first == kRoot ? 0 : entry.second.mappings;
  };
  const auto most =
      size_ - of_root > kMaxMappings / 2 ? std::ranges::max_element(users_, {}, of_user) : root;
  forget(processes_.find(most->second.recency.back()));
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
  const auto overlapped = static_cast<std::size_t>(std::distance(first, last));
  size_ -= overlapped;
  users_.at(process.user).mappings -= overlapped;
  mappings.erase(first, last);
  return true;
}

ProcessMappings::Processes::iterator ProcessMappings::forget(Processes::iterator process) {
  const auto user = users_.find(process->second.user);
  size_ -= process->second.mappings.size();
  user->second.mappings -= process->second.mappings.size();
  user->second.recency.erase(process->second.recency);
  if (user->second.recency.empty()) users_.erase(user);
  return processes_.erase(process);
}

void ProcessMappings::tick(std::uint64_t now_ns) {
  if (now_ns < next_tick_ns_) return;
  next_tick_ns_ = now_ns + nanoseconds_of(kTick);
  auto next = processes_.upper_bound(scanned_);
  for (std::size_t left = std::min(kProcessesOfTick, processes_.size()); left > 0; --left) {
    if (next == processes_.end()) next = processes_.begin();
    auto& [key, process] = *next;
    scanned_ = key;
    if (!is_gone_(key)) {
      process.ended_ns = 0;
    } else if (process.ended_ns == 0) {
      process.ended_ns = now_ns;
    } else if (now_ns - process.ended_ns >= nanoseconds_of(kKeptEnded)) {
      next = forget(next);
      continue;
    }
    ++next;
  }
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
