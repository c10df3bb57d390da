#include "collectors/sampling/unmap_watch.h"

#include <bpf/bpf.h>

#include <algorithm>

namespace profd {
namespace {

profd_process_key to_kernel(const ProcessKey& process) {
  return {.start_ns = process.start_ns, .tgid = process.tgid, .exec_id = process.exec_id};
}

}  // namespace

Result<UnmapWatch> UnmapWatch::open(const Programs& programs) {
  const auto watched = programs.map("profd_watched");
  if (!watched) return watched.error();
  return UnmapWatch(programs, *watched);
}

Result<void> UnmapWatch::attach() {
  if (!hooks_.empty()) return {};
  std::vector<const char*> names{"profd_munmap_call", "profd_mmap_call"};
  if (!programs_->program(names.front())) names = {"profd_mmap_lock"};
  std::vector<UniqueFd> hooks;
  for (const char* const name : names) {
    auto hook = programs_->attach_tracepoint(name);
    if (!hook) return hook.error();
    hooks.push_back(std::move(*hook));
  }
  hooks_ = std::move(hooks);
  return {};
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
  return attach();
}

void UnmapWatch::remove(const ProcessKey& process) {
  if (processes_.erase(process) == 0) return;
  const profd_process_key key = to_kernel(process);
  bpf_map_delete_elem(watched_, &key);
  if (processes_.empty()) hooks_.clear();
}

}  // namespace profd
