// Merges the profiles of many windows to one profile for each process.
//
// A process is identified by its pid, start and name, so that its time before an exec counts as
// another process. A process has several profiles if its profiles can't be merged
// (formats/profile/merge.h). Used on the worker.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "daemon/history/files.h"
#include "daemon/history/view.h"
#include "formats/api/session_summary.h"
#include "formats/base/result.h"
#include "formats/profile/merge.h"

namespace profd {

class WindowMerge {
 public:
  struct Merged {
    ProfileMerge profile;
    ProfileSummary summary;  // sums, without path
  };

  // With `hide_kernel` each run of kernel frames becomes one frame `[kernel]`.
  explicit WindowMerge(bool hide_kernel) : hide_kernel_(hide_kernel) {}

  // Reads the profiles of `view` from `files`. The samples of a profile that can't be read are
  // counted as lost in ledger().
  void add(const WindowFiles& files, const WindowView& view);

  // The sums over the windows, with the reason "unreadable" for losses in add(). `written` is 0.
  [[nodiscard]] const SessionLedger& ledger() const { return ledger_; }

  // An upper bound of the memory in use.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

  // Returns the profiles, sorted by pid and start, and ends the merge.
  [[nodiscard]] std::vector<Merged> take();

 private:
  using ProcessId = std::tuple<std::uint32_t, std::uint64_t, std::string>;

  [[nodiscard]] Result<Profile> read(const WindowFiles& files, const std::string& path) const;
  [[nodiscard]] bool merge(const Profile& profile, const ProfileSummary& summary);

  bool hide_kernel_;
  std::map<ProcessId, std::vector<Merged>> processes_;
  SessionLedger ledger_;
  std::uint64_t bytes_ = 0;
};

// Replaces each run of kernel frames by `[kernel]`.
[[nodiscard]] Profile with_hidden_kernel(const Profile& profile);

}  // namespace profd
