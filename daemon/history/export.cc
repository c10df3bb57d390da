#include "daemon/history/export.h"

#include <algorithm>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/profiles/object_images.h"
#include "daemon/profiles/profile_files.h"

namespace profd {
namespace {

Error no_window() {
  return fail(ErrorCode::kNotFound, "no window of continuous mode is in this range",
              "'profctl history' lists the windows; the current one appears when it ends");
}

Error no_process(const WindowTarget& target) {
  if (target.is_everything()) {
    return fail(ErrorCode::kNotFound, "no process was sampled in this range",
                "'profctl history' lists the windows and their busiest processes");
  }
  return fail(
      ErrorCode::kNotFound, "no process matched",
      "'profctl history' lists the busiest processes, 'profctl ps' the units and containers");
}

}  // namespace

HistoryExport::HistoryExport(ExportPlan plan)
    : plan_(std::move(plan)), target_(plan_.target), merge_(!plan_.caller.privileged) {}

Result<bool> HistoryExport::advance(Parser& parser, std::chrono::steady_clock::duration slice) {
  const auto end = std::chrono::steady_clock::now() + slice;
  do {
    if (Result<void> done = step(parser); !done) return done.error();
  } while (phase_ != Phase::kDone && std::chrono::steady_clock::now() < end);
  return phase_ == Phase::kDone;
}

Result<void> HistoryExport::step(Parser& parser) {
  switch (phase_) {
    case Phase::kBegin:
      return begin();
    case Phase::kWindows:
      return read_next_window();
    case Phase::kProfiles:
      return write_next_profile();
    case Phase::kObjects: {
      const Result<bool> wrote =
          objects_->write_next(*writer_, parser, max_images_bytes(plan_.caller.privileged));
      if (!wrote) return wrote.error();
      if (!*wrote) phase_ = Phase::kCommit;
      return {};
    }
    case Phase::kCommit:
      return commit();
    case Phase::kDone:
      break;
  }
  return {};
}

Result<void> HistoryExport::begin() {
  Result<ResultWriter> writer = ResultWriter::create(plan_.results_dir);
  if (!writer) return writer.error();
  Result<ResultWriter> pins = ResultWriter::create(plan_.results_dir);
  if (!pins) return pins.error();
  writer_.emplace(std::move(*writer));
  objects_.emplace(plan_.objects_dir, std::move(*pins));
  phase_ = Phase::kWindows;
  return {};
}

Result<void> HistoryExport::read_next_window() {
  if (next_ == plan_.windows.size()) return end_windows();
  const std::string& name = plan_.windows[next_++];
  const Result<WindowFiles> files = WindowFiles::open(plan_.windows_dir, name);
  Result<WindowView> view =
      files ? view_window(*files, plan_.caller) : Result<WindowView>(files.error());
  if (!view) {
    log::warn("window {} is left out of an export: {}", name, view.error().message);
    return {};
  }
  note(*view);
  target_.apply(*view);
  for (const std::string& object : view->objects) objects_->pin(object);
  merge_.add(*files, *view);
  if (merge_.bytes() <= plan_.max_bytes) return {};
  return fail(ErrorCode::kTooLarge,
              "the samples of this range are over " + std::to_string(plan_.max_bytes) + " bytes",
              "give a shorter range, or a target");
}

// The event and the period of the result are those of the newest window.
void HistoryExport::note(const WindowView& view) {
  if (summary_.started.empty()) {
    first_start_ = view.start;
    summary_.started = view.summary.started;
  }
  end_ = std::max(end_, view.end);
  summary_.event = view.summary.event;
  summary_.period_us = view.summary.period_us;
  summary_.period_unit = view.summary.period_unit;
}

Result<void> HistoryExport::end_windows() {
  if (summary_.started.empty()) return no_window();
  if (Result<void> clear = target_.check(); !clear) return clear;
  summary_.session = plan_.result.info.result;
  summary_.seconds = std::chrono::duration<double>(end_ - first_start_).count();
  summary_.ledger = merge_.ledger();
  merged_ = merge_.take();
  // Lost profiles make a result, since its ledger shows them.
  if (merged_.empty() && summary_.ledger.taken == 0) return no_process(target_);
  next_ = 0;
  phase_ = Phase::kProfiles;
  return {};
}

Result<void> HistoryExport::write_next_profile() {
  if (next_ == merged_.size()) {
    phase_ = Phase::kObjects;
    return {};
  }
  WindowMerge::Merged merged = std::move(merged_[next_++]);
  Profile profile = merged.profile.profile();
  objects_->adopt(profile);
  merged.summary.stacks = merged.profile.stacks();
  Result<ProfileSummary> written =
      write_profile(profile, std::move(merged.summary), taken_paths_, *writer_);
  if (!written) return written.error();
  summary_.ledger.written += written->samples;
  summary_.profiles.push_back(std::move(*written));
  return {};
}

Result<void> HistoryExport::commit() {
  Result<StoredResult> stored =
      commit_result(std::move(*writer_), std::move(summary_), std::move(plan_.result));
  if (!stored) return stored.error();
  plan_.result = std::move(*stored);
  phase_ = Phase::kDone;
  return {};
}

}  // namespace profd
