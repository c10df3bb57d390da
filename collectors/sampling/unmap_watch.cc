#include "collectors/sampling/unmap_watch.h"

#include <bpf/bpf.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace profd {
namespace {

profd_process_key to_kernel(const ProcessKey& process) {
  return {.start_ns = process.start_ns, .tgid = process.tgid, .exec_id = process.exec_id};
}

}  // namespace

// Which of the two ways the kernel supports is known since the programs were loaded.
Result<UnmapWatch> UnmapWatch::open(const Programs& programs) {
  const auto watched = programs.map("profd_watched");
  if (!watched) return watched.error();
  std::vector<const char*> names{"profd_munmap_call", "profd_mmap_call"};
  if (!programs.program(names.front())) names = {"profd_mmap_lock"};
  return UnmapWatch(Hook(programs, std::move(names)), *watched);
}

Result<void> UnmapWatch::set(const ProcessKey& process, std::span<const AddressRange> ranges) {
  if (ranges.empty()) {
    remove(process);
    return {};
  }
  const profd_process_key key = to_kernel(process);
  profd_watched watched{};
  std::ranges::transform(ranges.first(std::min(ranges.size(), kMaxRanges)), watched.spans,
                         [](const AddressRange& range) {
                           return profd_address_range{.start = range.start, .end = range.end};
                         });
  if (bpf_map_update_elem(watched_, &key, &watched, BPF_ANY) != 0) {
    return fail_errno("could not watch the unmaps of a process");
  }
  processes_.insert(process);
  const auto attached = hook_.need();
  if (!attached) return attached.error();
  return {};
}

void UnmapWatch::remove(const ProcessKey& process) {
  if (processes_.erase(process) == 0) return;
  const profd_process_key key = to_kernel(process);
  bpf_map_delete_elem(watched_, &key);
  if (processes_.empty()) hook_.release(Hook::Clock::now());
}

}  // namespace profd
