// The filter in the kernel as user space writes it: which session slot takes which processes.
//
// The next tick sees what is written. A slot becomes live last and stops being live first, so that
// no tick sees half a target. The hooks that follow children are attached only while a session
// needs them. Owned by the io thread.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bpf/profd_abi.h"
#include "collectors/bpf/programs.h"
#include "collectors/sampling/sampler.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

class TargetFilter {
 public:
  // Also finds the cgroup v2 mount. `programs` must outlive the filter.
  static Result<TargetFilter> open(const Programs& programs);

  // Makes the slot live for the ticks of an event set. After an error no further tick matches it,
  // and it is to be removed.
  Result<void> add(SessionSlot slot, unsigned event_set, const Target& target);

  // Of two slots that match all processes: `from` does so until now, `to` from now on, and each
  // tick matches exactly one of them. `event_set` is that of `from`.
  void move_target(SessionSlot from, SessionSlot to, unsigned event_set);

  // No tick that begins after the call matches the slot. A tick that runs now still may,
  // until a grace period is over (collectors/bpf/grace_periods.h).
  void stop_matching(SessionSlot slot);

  // Removes the slot from every map. To be called after stop_matching() and a grace period.
  void remove(SessionSlot slot);

  // False when the slot's target has only pids, and all those processes have exited.
  [[nodiscard]] bool has_targets(SessionSlot slot) const;

 private:
  struct Unmap {
    void operator()(profd_filter* filter) const noexcept;
  };

  TargetFilter() = default;
  Result<void> add_criteria(SessionSlot slot, const Target& target);
  Result<void> add_processes(SessionSlot slot, const Target& target);
  Result<void> add_descendants(SessionSlot slot, bool from_exec);
  Result<void> add_process(SessionSlot slot, const profd_task& task, bool follow, bool from_exec);
  void remove_processes(SessionSlot slot);
  void remove_absent(const std::vector<profd_task>& added, const std::vector<profd_task>& present);
  [[nodiscard]] bool is_target(std::uint32_t global_tgid, SessionSlot slot) const;
  Result<void> add_cgroups(SessionSlot slot, const std::vector<std::string>& cgroups);
  Result<void> attach_hook(UniqueFd& hook, const char* program);
  Result<void> attach_hooks(bool follow);
  void detach_unneeded_hooks();

  const Programs* programs_ = nullptr;
  std::unique_ptr<profd_filter, Unmap> filter_;
  int targets_ = -1;  // descriptors of the maps, which programs_ owns
  int comms_ = -1;
  int uids_ = -1;
  int cgroups_ = -1;
  std::string cgroup_mount_;     // empty: the host has no cgroup v2
  std::uint32_t following_ = 0;  // slots that follow children
  UniqueFd fork_hook_;
  UniqueFd exit_hook_;
  UniqueFd free_hook_;
};

}  // namespace profd
