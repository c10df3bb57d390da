// The processes that sessions by pids sample: those that are named, their descendants, and the
// children that these fork later.
//
// No call waits, and each takes 5 ms at most: another thread attaches the hooks and lists the
// processes of the host (hook.h, process_list.h), and what a list adds is added in several calls.
// So a session begins some calls of has_begun() after its start. Owned by the io thread.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "bpf/profd_abi.h"
#include "collectors/bpf/programs.h"
#include "collectors/bpf/sample.h"
#include "collectors/sampling/hook.h"
#include "collectors/sampling/process_list.h"
#include "collectors/sampling/target_map.h"
#include "formats/base/result.h"

namespace profd {

class ProcessTargets {
 public:
  struct Wanted {
    std::vector<std::uint32_t> pids;  // in profd's PID namespace
    bool follow_children = true;
    bool from_exec = false;
    std::optional<uid_t> user{};  // whose session it is; none: a privileged caller's
  };

  // Both must outlive the object.
  static Result<ProcessTargets> open(const Programs& programs, profd_filter& filter);

  // The slot, which is live already, gets these targets while has_begun() is called.
  void start(SessionSlot slot, Wanted wanted);

  // True: all targets were added, also for a slot without start(). False: ask again after a moment.
  // After an error the slot is to be removed.
  [[nodiscard]] Result<bool> has_begun(SessionSlot slot);

  // For slots without start() too.
  void remove(SessionSlot slot);

  // False when all processes of the slot have exited. Some 100 ms late.
  [[nodiscard]] bool has_targets(SessionSlot slot);

  // To be called every second or so.
  void detach_unneeded_hooks(Hook::Clock::time_point now);

 private:
  // How far a slot has come. Each step needs what the ones before did.
  enum class Step { kAttach, kName, kList, kAdd };
  struct Start {
    Wanted wanted;
    Step step = Step::kAttach;
    std::vector<profd_task> named{};  // the processes with these pids
    std::vector<profd_task> added{};  // those found in lists
    std::uint64_t list_number = 0;
    unsigned lists = 0;
    std::shared_ptr<const ProcessList> list{};
    std::vector<profd_task> to_add{};  // of this list
    std::size_t added_before = 0;      // by earlier lists
    // Those that are targets, by tgid, with their start.
    std::unordered_map<std::uint32_t, std::uint64_t> known{};
  };

  ProcessTargets(const Programs& programs, profd_filter& filter, TargetMap map);
  Result<bool> advance(SessionSlot slot, Start& start);
  Result<bool> need_hooks(const Start& start);
  Result<bool> add_named(SessionSlot slot, Start& start);
  Result<profd_task> add_pid(SessionSlot slot, std::uint32_t pid, bool from_exec);
  void request_list(Start& start);
  Result<bool> take_list(Start& start);
  Result<bool> add_descendants(SessionSlot slot, Start& start);
  Result<void> add_one(SessionSlot slot, Start& start, const profd_task& process);
  void remove_absent(SessionSlot slot, const Start& start);

  const Programs* programs_;
  profd_filter* filter_;
  TargetMap map_;
  ProcessLister lister_;
  Hook exit_hook_;
  Hook fork_hook_;
  std::map<SessionSlot, Start> starts_;
  std::uint32_t slots_ = 0;  // with start()
  std::uint32_t slots_with_targets_ = 0;
  Hook::Clock::time_point next_count_{};
};

}  // namespace profd
