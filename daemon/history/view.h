// The part of a window that a caller may see.
//
// root and the group profd see everything. Other users see the profiles of processes that were
// theirs during the whole window (ProcessOwner), and no losses, which are those of the whole host.
// Any thread.

#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "daemon/history/window_file.h"
#include "daemon/service/caller.h"
#include "formats/api/session_summary.h"
#include "formats/base/result.h"
#include "formats/profile/pprof_merge.h"
#include "formats/profile/pprof_tables.h"

namespace profd {

struct WindowView {
  std::chrono::system_clock::time_point start;
  std::chrono::system_clock::time_point end;
  SessionSummary summary;               // with the visible profiles and their ledger only
  std::vector<WindowProfile> profiles;  // in the order of the summary
};

[[nodiscard]] WindowView view_window(const WindowFile& file, const Caller& caller);

// Selects the samples of the processes in `view` when the window is merged.
[[nodiscard]] PprofSelect select_for(const WindowView& view);

// Replaces each run of kernel frames by one frame `[kernel]`, as unprivileged callers see it.
void hide_kernel(PprofTables& tables);

// The file of a window for a caller: as it is, or encoded anew with what the caller may see.
// kNotFound: that is nothing, or there is no such window.
[[nodiscard]] Result<std::string> read_window_for(const Caller& caller,
                                                  const std::string& windows_dir,
                                                  const std::string& name);

// Keeps the profiles whose element of `keep` is true, and removes the losses, since they are of
// all.
void keep_profiles(WindowView& view, const std::vector<bool>& keep);

}  // namespace profd
