// A window of continuous mode as a caller may see it.
//
// root and the group profd see all of it. Anyone else sees the profiles of processes that were
// theirs all through the window (ProcessOwner), and no losses, which are of the whole host. Any
// thread.

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
  SessionSummary summary;               // its profiles and ledger cut down to what may be seen
  std::vector<WindowProfile> profiles;  // those of the summary, in its order
  std::vector<std::string> objects;     // that any profile of the window needs
};

// kNotFound: the window is gone; kMalformed: its files do not fit together.
[[nodiscard]] Result<WindowView> view_window(const WindowFiles& files, const Caller& caller);

// Leaves those profiles of which `keep` says so; then nothing is known of losses.
void keep_profiles(WindowView& view, const std::vector<bool>& keep);

// With the `limit` processes that have most samples.
[[nodiscard]] WindowShares shares_of(const WindowView& view, std::size_t limit);

}  // namespace profd
