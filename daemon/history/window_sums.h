// The processes of a window, each set of labels once.
//
// A process that calls exec without a change of its name has two images with equal labels, whose
// samples are one in the file. Their figures are added up; the owner is none if they differ. Any
// thread.

#pragma once

#include <map>
#include <vector>

#include "daemon/history/files.h"
#include "formats/api/session_summary.h"
#include "formats/profile/pprof_profile.h"

namespace profd {

class WindowSums {
 public:
  void add(ProfileSummary summary, WindowProfile profile);

  // Sets the lists of processes, in the order in which they came. Their samples and stacks are
  // counted in `profile`.
  void finish(const PprofProfile& profile, SessionSummary& summary, WindowRecord& record) &&;

 private:
  std::map<ProcessLabels, std::size_t> places_;
  std::vector<ProfileSummary> summaries_;
  std::vector<WindowProfile> profiles_;
};

// Adds the figures of other samples, such as those of a later window.
void add_figures(const ProfileSummary& other, ProfileSummary& sum);

}  // namespace profd
