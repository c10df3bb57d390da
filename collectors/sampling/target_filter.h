// The in-kernel filter, as user space writes it: which slot wants which processes.
//
// Writes are seen by the next tick. A slot is made live last and dead first, so that no tick sees
// half a target. What follows children is attached only while some session wants it. Owned by the
// io thread.

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
  // Finds the cgroup v2 mount by itself. `programs` must outlive the filter.
  static Result<TargetFilter> open(const Programs& programs);

  // Makes the slot live for the ticks of an event set. On an error nothing of the slot is left
  // behind.
  Result<void> add(SessionSlot slot, unsigned event_set, const Target& target);

  // Of two slots that match all processes: `from` does so until now, `to` from now on, and each
  // tick matches exactly one of them. `event_set` is that of `from`.
  void move_target(SessionSlot from, SessionSlot to, unsigned event_set);

  // From here on no tick that begins matches the slot; one that runs may
  // (Programs::wait_for_running_programs).
  void stop_matching(SessionSlot slot);

  // Takes the slot out of every map. After stop_matching() and the wait.
  void remove(SessionSlot slot);

  // False when the slot was added by pids alone and no process of its is left.
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
