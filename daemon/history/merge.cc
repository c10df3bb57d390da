#include "daemon/history/merge.h"

#include "daemon/base/log.h"
#include "daemon/history/window_sums.h"

namespace profd {
namespace {

constexpr const char* kUnreadable = "unreadable";

// The memory of an entry in the map of processes.
constexpr std::uint64_t kProcessBytes = 512;

void add_counts(const CountsByReason& from, CountsByReason& to) {
  for (const auto& [reason, count] : from) to[reason] += count;
}

// Start, unit and container are those of the newest window.
void add_summary(const ProfileSummary& from, ProfileSummary& to) {
  to.pid = from.pid;
  to.start_time_ns = from.start_time_ns;
  to.comm = from.comm;
  to.unit = from.unit;
  to.container = from.container;
  add_figures(from, to);
}

}  // namespace

void WindowMerge::add(Result<PprofTables> tables, const WindowView& view) {
  const SessionLedger& ledger = view.summary.ledger;
  ledger_.taken += ledger.taken;
  add_counts(ledger.lost, ledger_.lost);
  if (tables && hide_kernel_) hide_kernel(*tables);
  const Result<void> added =
      tables ? profiles_.add(*tables, select_for(view)) : Result<void>(tables.error());
  for (std::size_t i = 0; i < view.profiles.size(); ++i) {
    const ProfileSummary& summary = view.summary.profiles[i];
    if (!added) {
      ledger_.lost[kUnreadable] += summary.samples;
      continue;
    }
    const ProcessLabels& labels = view.profiles[i].labels;
    add_summary(summary, processes_[{labels.pid, labels.comm}]);
  }
  if (added) return;
  log::warn("window {} is left out of an export: {}", view.summary.session, added.error().message);
}

std::uint64_t WindowMerge::bytes() const {
  return profiles_.profile().bytes() + processes_.size() * kProcessBytes;
}

ProfileSummary WindowMerge::summary_of(std::uint32_t pid, const std::string& comm) const {
  const auto found = processes_.find({pid, comm});
  if (found != processes_.end()) return found->second;
  ProfileSummary summary;
  summary.pid = pid;
  summary.comm = comm;
  return summary;
}

std::unique_ptr<PprofProfile> WindowMerge::take_profile() {
  return std::make_unique<PprofProfile>(std::move(profiles_).take());
}

}  // namespace profd
