// The map of the kernel's side that has the processes of sessions by pids: an entry for each
// process in each session (bpf/targets.h).
//
// Unprivileged users together have half of the entries, and one of them an eighth, with the uids
// that are the user's (uid_owners.h). Both sides count exactly: an entry counts before it is added,
// and until its removal has succeeded. Calls take 1 us an entry, and 3 ms where they read the whole
// map. Owned by the io thread.

#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "bpf/profd_abi.h"
#include "collectors/bpf/programs.h"
#include "collectors/bpf/sample.h"
#include "formats/base/result.h"

namespace profd {

class TargetMap {
 public:
  // `programs` must outlive the map.
  static Result<TargetMap> open(const Programs& programs);

  // Chooses the account for which the slot's entries count, and returns it. `user`: none for a
  // session of a privileged caller. To be called first; remove_all() closes the account.
  std::uint32_t open_account(SessionSlot slot, std::optional<uid_t> user);

  // True: the process was added; false: it is a target already. `from_exec`: from its next exec on.
  // Errors: kTooLarge where the user, all users, or all sessions together have too many.
  Result<bool> add(SessionSlot slot, const profd_task& task, bool from_exec);
  // Does nothing where the entry is that of a later process with the tgid.
  void remove(SessionSlot slot, const profd_task& task);

  void remove_all(SessionSlot slot);

  // The slots with a process that has not exited, as a mask. Removes processes that exited a minute
  // ago: the hook that does it misses some (bpf/targets.h).
  [[nodiscard]] std::uint32_t slots_with_targets();

 private:
  struct Unmap {
    void operator()(profd_target_counts* counts) const noexcept;
  };

  TargetMap() = default;
  [[nodiscard]] Result<void> charge(std::uint32_t account);
  void add_to_counts(std::uint32_t account, int change);
  [[nodiscard]] bool has(const profd_target_key& key, std::uint64_t start_ns) const;
  void erase(const profd_target_key& key);
  template <class Visit>
  void for_each(Visit visit) const;

  int map_ = -1;  // the map's descriptor, which the programs own
  std::unique_ptr<profd_target_counts, Unmap> counts_;
  std::array<std::optional<uid_t>, PROFD_MAX_SESSIONS> users_;
  std::array<std::uint32_t, PROFD_MAX_SESSIONS> accounts_{};
};

}  // namespace profd
