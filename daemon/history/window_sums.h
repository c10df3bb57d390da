// The processes of a window, each set of labels once.
//
// A process that calls exec without a change of its name has two images with equal labels, whose
// samples are one in the file. Their figures are added up; the owner is none if they differ. Any
// thread.

#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "daemon/history/files.h"
#include "formats/api/session_summary.h"
#include "formats/profile/pprof_profile.h"

namespace profd {

class WindowSums {
 public:
  void add(ProfileSummary summary, WindowProfile profile);

  [[nodiscard]] std::span<const WindowProfile> profiles() const { return profiles_; }

  // The index in profiles(). None: there is no such process.
  [[nodiscard]] std::optional<std::size_t> place_of(const ProcessLabels& labels) const;

  // About what a process takes in the file besides its stacks, before it is packed: its entries in
  // both lists, and the texts of its labels.
  [[nodiscard]] std::size_t file_bytes(std::size_t place) const;

  // The memory in use, about.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

  // Each process whose element of `into` is not null becomes a part of that one, which has only
  // their figures in common with them.
  void fold(std::span<const WindowProfile* const> into);

  // Sets the lists of processes, in the order in which they came. Their samples and stacks are
  // counted in `profile`.
  void finish(const PprofProfile& profile, SessionSummary& summary, WindowRecord& record) &&;

 private:
  std::map<ProcessLabels, std::size_t> places_;
  std::vector<ProfileSummary> summaries_;
  std::vector<WindowProfile> profiles_;
  std::size_t bytes_ = 0;
};

// Adds the figures of other samples, such as those of a later window.
void add_figures(const ProfileSummary& other, ProfileSummary& sum);

}  // namespace profd
