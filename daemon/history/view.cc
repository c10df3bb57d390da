#include "daemon/history/view.h"

#include <algorithm>
#include <utility>

namespace profd {
namespace {

bool is_theirs(const Caller& caller, const WindowProfile& profile) {
  return profile.owner == ProcessOwner{.uid = caller.uid, .gid = caller.gid};
}

bool fit_together(const WindowView& view) {
  return std::ranges::equal(view.summary.profiles, view.profiles, {}, &ProfileSummary::path,
                            &WindowProfile::path);
}

std::uint64_t samples_of(const std::vector<ProfileSummary>& profiles) {
  std::uint64_t sum = 0;
  for (const ProfileSummary& profile : profiles) sum += profile.samples;
  return sum;
}

ProcessShare share_of(const ProfileSummary& profile, const SessionSummary& window) {
  const double microseconds =
      static_cast<double>(profile.samples) * static_cast<double>(window.period_us);
  const double cpu_percent = window.seconds > 0 ? microseconds / 1e4 / window.seconds : 0;
  return {.cpu_percent = cpu_percent,
          .pid = profile.pid,
          .start_time_ns = profile.start_time_ns,
          .comm = profile.comm,
          .unit = profile.unit,
          .container = profile.container,
          .samples = profile.samples,
          .user_samples = profile.user_samples,
          .complete_samples = profile.complete_samples,
          .jit = profile.jit};
}

}  // namespace

Result<WindowView> view_window(const WindowFiles& files, const Caller& caller) {
  Result<WindowRecord> record = files.read_record();
  if (!record) return record.error();
  Result<SessionSummary> summary = files.read_summary();
  if (!summary) return summary.error();
  WindowView view{.start = record->start,
                  .end = record->end,
                  .summary = std::move(*summary),
                  .profiles = std::move(record->profiles),
                  .objects = std::move(record->objects)};
  if (!fit_together(view)) {
    return fail(ErrorCode::kMalformed, "the files of window " + view.summary.session +
                                           " have different lists of profiles");
  }
  if (caller.privileged) return view;
  std::vector<bool> keep;
  for (const WindowProfile& profile : view.profiles) keep.push_back(is_theirs(caller, profile));
  keep_profiles(view, keep);
  return view;
}

void keep_profiles(WindowView& view, const std::vector<bool>& keep) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < keep.size(); ++i) {
    if (!keep[i]) continue;
    if (kept != i) {
      view.summary.profiles[kept] = std::move(view.summary.profiles[i]);
      view.profiles[kept] = std::move(view.profiles[i]);
    }
    ++kept;
  }
  view.summary.profiles.resize(kept);
  view.profiles.resize(kept);
  const std::uint64_t samples = samples_of(view.summary.profiles);
  view.summary.ledger = {.taken = samples, .written = samples, .lost = {}};
}

WindowShares shares_of(const WindowView& view, std::size_t limit) {
  const SessionSummary& summary = view.summary;
  WindowShares shares{.window = summary.session,
                      .started = summary.started,
                      .seconds = summary.seconds,
                      .samples = samples_of(summary.profiles),
                      .lost = summary.ledger.lost,
                      .processes = {}};
  for (const ProfileSummary& profile : summary.profiles) {
    shares.processes.push_back(share_of(profile, summary));
  }
  std::ranges::stable_sort(shares.processes, std::ranges::greater{}, &ProcessShare::samples);
  if (shares.processes.size() > limit) shares.processes.resize(limit);
  return shares;
}

}  // namespace profd
