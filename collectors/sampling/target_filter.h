// The filter in the kernel as user space writes it: which session slot takes which processes.
//
// The next tick sees what is written. A slot becomes live last and stops being live first, so that
// no tick sees half a target. Only pids come later (process_targets.h).
//
// Each call returns at once: it changes entries of maps, which takes 1 us each, and waits for
// nothing. What may wait, another thread does. Owned by the io thread.

#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bpf/profd_abi.h"
#include "collectors/bpf/programs.h"
#include "collectors/sampling/event_sets.h"
#include "collectors/sampling/process_targets.h"
#include "collectors/sampling/sampler.h"
#include "formats/base/result.h"

namespace profd {

// Which samples a slot takes.
struct EventUse {
  std::optional<unsigned> event_set{};  // ticks of this one
  bool blocked = false;                 // blocks of threads that wait for something
  bool runnable = false;                // and of those that wait for a CPU

  [[nodiscard]] bool has_blocks() const { return blocked || runnable; }
};

class TargetFilter {
 public:
  // Also finds the cgroup v2 mount. `programs` must outlive the filter.
  static Result<TargetFilter> open(const Programs& programs);

  // Makes the slot live for the ticks of an event set, or for blocks, which the kernel counts since
  // count_blocks_from(). After an error no further tick matches it, and it is to be removed.
  Result<void> add(SessionSlot slot, const EventUse& use, const Target& target,
                   const SessionOwner& owner);

  // ProcessTargets::has_begun(): a target by pids has begun after some calls.
  [[nodiscard]] Result<bool> has_begun(SessionSlot slot);

  // Of a block that began before this time by CLOCK_MONOTONIC, the slot's counters have the rest.
  void count_blocks_from(SessionSlot slot, std::uint64_t time_ns);

  // Of two slots that match all processes: `from` does so until now, `to` from now on, and each
  // tick matches exactly one of them. `use` is that of `from`.
  void move_target(SessionSlot from, SessionSlot to, const EventUse& use);

  // No tick that begins after the call matches the slot. A tick that runs now still may,
  // until a grace period is over (collectors/bpf/grace_periods.h).
  void stop_matching(SessionSlot slot);

  // Removes the slot from every map. To be called after stop_matching() and a grace period.
  void remove(SessionSlot slot);

  // False when the slot's target has only pids, and all those processes have exited.
  [[nodiscard]] bool has_targets(SessionSlot slot);

  // To be called every second or so.
  void detach_unneeded_hooks(std::chrono::steady_clock::time_point now) {
    processes_->detach_unneeded_hooks(now);
  }

 private:
  struct Unmap {
    void operator()(profd_filter* filter) const noexcept;
  };

  TargetFilter() = default;
  Result<void> add_criteria(SessionSlot slot, const Target& target);
  Result<void> add_cgroups(SessionSlot slot, const std::vector<std::string>& cgroups);
  void set_began(SessionSlot slot);
  void set_use(SessionSlot slot, const EventUse& use);
  void set_live(SessionSlot slot);
  void raise_match_generation();
  void set_all_counted();

  std::unique_ptr<profd_filter, Unmap> filter_;
  std::optional<ProcessTargets> processes_;
  int comms_ = -1;  // descriptors of the maps, which the programs own
  int uids_ = -1;
  int cgroups_ = -1;
  std::string cgroup_mount_;  // empty: the host has no cgroup v2
};

}  // namespace profd
