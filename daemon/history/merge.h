// The profiles of many windows of continuous mode, merged to one a process.
//
// A process is known by its pid, start and name, so that what a process was before an exec stays
// apart. Its profiles become one, or several where they can't be one (formats/profile/merge.h). A
// value; used on the worker.

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
    ProfileSummary summary;  // the sums; without path
  };

  // With `hide_kernel` each run of kernel frames becomes the one frame `[kernel]`.
  explicit WindowMerge(bool hide_kernel) : hide_kernel_(hide_kernel) {}

  // Reads the profiles of `view` from `files`. A profile that can't be read is lost: its samples
  // are counted in lost(), and all else goes on.
  void add(const WindowFiles& files, const WindowView& view);

  // Sums over the windows, with the reason "unreadable" for what add() lost. `written` is left 0.
  [[nodiscard]] const SessionLedger& ledger() const { return ledger_; }

  // An upper bound of the memory held.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

  // By pid and start. Ends the merge.
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

// The profile with `[kernel]` for each run of kernel frames.
[[nodiscard]] Profile with_hidden_kernel(const Profile& profile);

}  // namespace profd
