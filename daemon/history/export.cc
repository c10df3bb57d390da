#include "daemon/history/export.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/profiles/object_images.h"
#include "daemon/profiles/profile_files.h"
#include "formats/base/gzip.h"
#include "formats/profile/pprof_writer.h"

namespace profd {
namespace {

// The result is soon removed, and other work of the worker waits meanwhile: 6 takes 2.5 times the
// time for 5 % less.
constexpr int kExportGzipLevel = 1;

Error no_window() {
  return fail(ErrorCode::kNotFound, "no window of continuous mode is in this range",
              "'profctl history' lists the windows; the current one appears when it ends");
}

Error no_readable_window() {
  return fail(ErrorCode::kIo, "no window of this range could be read",
              "the log of profd says why; 'profctl history' lists the others");
}

Error no_process(const WindowTarget& target) {
  if (target.is_everything()) {
    return fail(ErrorCode::kNotFound, "no process was sampled in this range",
                "'profctl history' lists the windows and whose samples they have");
  }
  return fail(ErrorCode::kNotFound, "no process matched",
              "'profctl ps --all' lists who ran in the last window only, and with --since and "
              "--until, or --last, in another time; without root's rights, it has your own only");
}

// In microseconds. None: there are no samples with a CPU time.
std::optional<std::uint64_t> mean_period(std::int64_t nanoseconds, std::uint64_t samples) {
  if (nanoseconds <= 0 || samples == 0) return std::nullopt;
  return static_cast<std::uint64_t>(
      std::llround(static_cast<double>(nanoseconds) / 1e3 / static_cast<double>(samples)));
}

std::string pack_with(std::string encoded, const SessionSummary& summary) {
  add_own_data(encoded, to_json(summary));
  return pack_gzip(encoded, kExportGzipLevel);
}

}  // namespace

HistoryExport::HistoryExport(ExportPlan plan)
    : plan_(std::move(plan)),
      windows_(std::move(plan_.files)),
      target_(plan_.target),
      merge_(!plan_.caller.privileged) {}

Result<bool> HistoryExport::advance(std::chrono::steady_clock::duration slice) {
  const auto end = std::chrono::steady_clock::now() + slice;
  do {
    if (Result<void> done = step(); !done) return done.error();
  } while (phase_ != Phase::kDone && std::chrono::steady_clock::now() < end);
  return phase_ == Phase::kDone;
}

Result<void> HistoryExport::step() {
  switch (phase_) {
    case Phase::kBegin:
      return begin();
    case Phase::kWindows:
      return read_next_window();
    case Phase::kDirectory:
      return make_directory();
    case Phase::kProfiles:
      return write_next_profile();
    case Phase::kImages:
      return write_next_image();
    case Phase::kOrder:
      order_names();
      break;
    case Phase::kEncode:
      encode_names();
      break;
    case Phase::kPack:
      return pack_names();
    case Phase::kCommit:
      return commit();
    case Phase::kDone:
      break;
  }
  return {};
}

Result<void> HistoryExport::begin() {
  Result<ResultWriter> writer = ResultWriter::create(plan_.results_dir, plan_.account);
  if (!writer) return writer.error();
  writer_.emplace(std::move(*writer));
  phase_ = Phase::kWindows;
  return {};
}

Result<void> HistoryExport::read_next_window() {
  const std::unique_ptr<ReadWindow> window = windows_.next();
  if (!window) return end_windows();
  if (!window->file) {
    log::warn("window {} is left out of an export: {}", window->name, window->file.error().message);
    if (window->file.error().code != ErrorCode::kNotFound) ++unreadable_;  // else it was removed
    return {};
  }
  if (!window->tables) ++unreadable_;
  WindowView view = view_window(*window->file, plan_.caller);
  note(view);
  target_.apply(view);
  merge_.add(std::move(window->tables), view);
  if (merge_.bytes() <= plan_.max_bytes) return {};
  windows_.drop();
  return fail(ErrorCode::kTooLarge,
              "the samples of this range are over " + std::to_string(plan_.max_bytes) + " bytes",
              "give a shorter range, or a target");
}

// The event and the period of the result are those of the newest window, if they have one period.
void HistoryExport::note(const WindowView& view) {
  if (summary_.started.empty()) {
    first_start_ = view.start;
    summary_.started = view.summary.started;
  }
  end_ = std::max(end_, view.end);
  const std::uint64_t before = std::exchange(summary_.period_us, view.summary.period_us);
  if (before != 0 && before != summary_.period_us) has_periods_ = true;
  summary_.event = view.summary.event;
  summary_.period_unit = view.summary.period_unit;
}

Result<void> HistoryExport::end_windows() {
  if (summary_.started.empty()) return unreadable_ == 0 ? no_window() : no_readable_window();
  if (Result<void> clear = target_.check(); !clear) return clear;
  summary_.session = plan_.result.info.result;
  summary_.seconds = std::chrono::duration<double>(end_ - first_start_).count();
  summary_.ledger = merge_.ledger();
  profile_ = merge_.take_profile();
  if (unreadable_ != 0) note_unreadable();
  phase_ = Phase::kDirectory;
  return {};
}

// The ledger does not have the samples of a window whose file does not decode.
void HistoryExport::note_unreadable() {
  const std::string text = std::to_string(unreadable_) +
                           (unreadable_ == 1 ? " window" : " windows") +
                           " of this time could not be read: the samples of " +
                           (unreadable_ == 1 ? "it" : "them") + " are missing";
  profile_->comments.insert(text);
  add_note(text);
}

void HistoryExport::add_note(const std::string& text) {
  std::optional<std::string>& note = plan_.result.info.note;
  note = note ? *note + "; " + text : text;
}

void HistoryExport::set_mean_period() {
  std::int64_t nanoseconds = 0;
  std::uint64_t samples = 0;
  for (const NamedDirectory::Process& process : directory_->processes()) {
    nanoseconds = sum_within_limits(nanoseconds, process.last_values);
    for (const NamedDirectory::CountedStack& stack : process.stacks) samples += stack.samples;
  }
  const auto mean = mean_period(nanoseconds, samples);
  if (!mean) return;
  summary_.period_us = *mean;
  add_note("the frequency changed in this time: the period is the mean");
}

std::uint64_t HistoryExport::period_of(const NamedDirectory::Process& process,
                                       std::uint64_t samples) const {
  if (!has_periods_) return summary_.period_us;
  return mean_period(process.last_values, samples).value_or(summary_.period_us);
}

Result<void> HistoryExport::make_directory() {
  directory_.emplace(*profile_);
  // Lost samples make a result, since its ledger shows them.
  if (directory_->processes().empty() && summary_.ledger.taken == 0) return no_process(target_);
  next_ = 0;
  phase_ = plan_.profile_only ? Phase::kOrder : Phase::kProfiles;
  summarize_profiles();
  if (has_periods_) set_mean_period();
  if (!plan_.profile_only) pack_ahead();
  return {};
}

// Nothing changes the profile meanwhile.
void HistoryExport::pack_ahead() {
  packed_ahead_ = std::async(
      std::launch::async | std::launch::deferred, [profile = profile_.get(), summary = summary_] {
        return pack_with(encode_pprof_tables(order_pprof(*profile).tables), summary);
      });
}

void HistoryExport::summarize_profiles() {
  std::set<std::string> taken_paths;
  for (const NamedDirectory::Process& process : directory_->processes()) {
    ProfileSummary summary = merge_.summary_of(process.pid, process.comm);
    summary.samples = 0;
    for (const NamedDirectory::CountedStack& stack : process.stacks) {
      summary.samples += stack.samples;
    }
    summary.stacks = process.stacks.size();
    if (!plan_.profile_only) summary.path = profile_path(summary, taken_paths);
    summary_.ledger.written += summary.samples;
    summary_.profiles.push_back(std::move(summary));
  }
}

Result<void> HistoryExport::write_next_profile() {
  if (next_ == directory_->processes().size()) {
    next_ = 0;
    phase_ = Phase::kImages;
    return {};
  }
  const ProfileSummary& summary = summary_.profiles[next_];
  const NamedDirectory::Process& process = directory_->processes()[next_++];
  const std::string file = directory_->encode_profile(process, period_of(process, summary.samples));
  const Result<std::uint64_t> samples = write_encoded_profile(summary.path, file, *writer_);
  if (!samples) return samples.error();
  if (*samples == summary.samples) return {};
  return fail(ErrorCode::kIo, summary.path + " has " + std::to_string(*samples) +
                                  " samples on the disk instead of " +
                                  std::to_string(summary.samples));
}

Result<void> HistoryExport::write_next_image() {
  if (next_ == directory_->images()) {
    directory_.reset();
    phase_ = Phase::kPack;
    return {};
  }
  const std::uint64_t max_bytes = max_images_bytes(plan_.caller.privileged);
  const std::string image =
      directory_->encode_image(next_, max_bytes - std::min(images_bytes_, max_bytes));
  images_bytes_ += image.size();
  return writer_->add(directory_->image_path(next_++), image);
}

void HistoryExport::order_names() {
  directory_.reset();
  ordered_ = order_pprof(*profile_);
  phase_ = Phase::kEncode;
}

void HistoryExport::encode_names() {
  encoded_ = encode_pprof_tables(ordered_->tables);
  ordered_.reset();
  profile_.reset();
  phase_ = Phase::kPack;
}

Result<void> HistoryExport::pack_names() {
  phase_ = Phase::kCommit;
  return writer_->add(kNamedProfile, packed_ahead_.valid()
                                         ? packed_ahead_.get()
                                         : pack_with(std::exchange(encoded_, {}), summary_));
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
