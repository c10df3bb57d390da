// Merges the files of many windows to one profile with names, and the entries of their processes to
// one for each process.
//
// A process is identified by its pid and name, as in its labels, so that its time before an exec
// counts as another process. Used on the worker.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "daemon/history/view.h"
#include "daemon/history/window_file.h"
#include "formats/api/session_summary.h"
#include "formats/profile/pprof_merge.h"
#include "formats/profile/pprof_profile.h"

namespace profd {

class WindowMerge {
 public:
  // With `hide_kernel` each run of kernel frames becomes one frame `[kernel]`.
  explicit WindowMerge(bool hide_kernel) : hide_kernel_(hide_kernel) {}

  // Adds the samples of the processes in `view` from the tables of its file. If these could not be
  // read, or are of another event than those of the first window, the samples are counted as lost
  // in ledger().
  void add(Result<PprofTables> tables, const WindowView& view);

  // The sums over the windows, with the reason "unreadable" for losses in add(). `written` is 0.
  [[nodiscard]] const SessionLedger& ledger() const { return ledger_; }

  // The memory in use.
  [[nodiscard]] std::uint64_t bytes() const;

  // The sums of a process, without path and stacks.
  [[nodiscard]] ProfileSummary summary_of(std::uint32_t pid, const std::string& comm) const;

  // Ends the merge. Without sample types if no window was added.
  [[nodiscard]] std::unique_ptr<PprofProfile> take_profile();

 private:
  bool hide_kernel_;
  PprofMerge profiles_;
  std::map<std::pair<std::uint32_t, std::string>, ProfileSummary> processes_;
  SessionLedger ledger_;
};

}  // namespace profd
