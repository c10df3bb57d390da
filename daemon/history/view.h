// The part of a window that a caller may see.
//
// root and the group profd see everything. Other users see the profiles of processes that were
// theirs during the whole window (ProcessOwner), and no losses, which are those of the whole host.
// Any thread.

#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "daemon/history/files.h"
#include "daemon/service/caller.h"
#include "formats/api/history_api.h"
#include "formats/api/session_summary.h"
#include "formats/base/result.h"

namespace profd {

struct WindowView {
  std::chrono::system_clock::time_point start;
  std::chrono::system_clock::time_point end;
  SessionSummary summary;               // with the visible profiles and their ledger only
  std::vector<WindowProfile> profiles;  // in the order of the summary
  std::vector<std::string> objects;     // of all profiles of the window
};

// kNotFound: the window is removed; kMalformed: its files do not fit together.
[[nodiscard]] Result<WindowView> view_window(const WindowFiles& files, const Caller& caller);

// Keeps the profiles whose element of `keep` is true, and removes the losses, since they are of
// all.
void keep_profiles(WindowView& view, const std::vector<bool>& keep);

// Returns the `limit` processes with most samples.
[[nodiscard]] WindowShares shares_of(const WindowView& view, std::size_t limit);

}  // namespace profd
