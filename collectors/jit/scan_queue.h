// The processes that wait for a scan of the follower. Users share it: a user whose processes are
// scanned slowly leaves room for those of others.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "collectors/bpf/sample.h"
#include "collectors/jit/stats.h"

namespace profd {

// A process to be scanned.
struct WantedScan {
  ProcessKey process;
  // From the process's samples: used if it has ended, and charged for a thread that hangs.
  std::uint32_t uid = UINT32_MAX;  // of a user that is not known; no file belongs to it
};

class ScanQueue {
 public:
  // All processes that there can be, and as many that were forgotten since.
  static constexpr std::size_t kMaxQueued = std::size_t{2} * PROFD_MAX_WATCHED;
  static constexpr std::size_t kMaxQueuedOfUsers = kMaxQueued / 2;  // of all but root
  static constexpr std::size_t kMaxQueuedOfUser = kMaxQueued / 8;

  // `payer` is the user whose uid it is. The refusal of a process for which there is no room.
  [[nodiscard]] std::optional<JitRefusal> add(const WantedScan& wanted, std::uint32_t payer) {
    if (scans_.size() >= kMaxQueued) return JitRefusal::kQueueFull;
    if (payer != 0) {
      if (of_user_[payer] >= kMaxQueuedOfUser) return JitRefusal::kOverShare;
      if (of_users_ >= kMaxQueuedOfUsers) return JitRefusal::kQueueFull;
      ++of_user_[payer];
      ++of_users_;
    }
    scans_.push_back(wanted);
    return std::nullopt;
  }

  [[nodiscard]] const std::vector<WantedScan>& scans() const { return scans_; }

 private:
  std::vector<WantedScan> scans_;
  std::size_t of_users_ = 0;
  std::map<std::uint32_t, std::size_t> of_user_;
};

}  // namespace profd
