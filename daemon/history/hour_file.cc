#include "daemon/history/hour_file.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>
#include <vector>

#include "daemon/base/log.h"
#include "daemon/history/files.h"
#include "daemon/history/window_file.h"
#include "daemon/history/window_sums.h"
#include "formats/profile/pprof_merge.h"

namespace profd {
namespace {

constexpr const char* kUnreadable = "unreadable";
constexpr const char* kPidLabel = "pid";

void add_ledger(const SessionLedger& from, SessionLedger& to) {
  to.taken += from.taken;
  to.written += from.written;
  for (const auto& [reason, count] : from.lost) to.lost[reason] += count;
}

class HourMaker {
 public:
  explicit HourMaker(const std::string& windows_dir) : windows_dir_(windows_dir) {}

  // The samples of each process over the hour, which decide whether it keeps its pid.
  void count(const std::string& window) {
    const Result<WindowFile> file = WindowFile::open(windows_dir_, window);
    if (!file) return;
    const auto& profiles = file->record().profiles;
    for (std::size_t i = 0; i < profiles.size(); ++i) {
      samples_[profiles[i].labels] += file->summary().profiles[i].samples;
    }
  }

  void add(const std::string& window) {
    const Result<WindowFile> file = WindowFile::open(windows_dir_, window);
    if (!file) return log::warn("window {} is not in its hour: {}", window, file.error().message);
    const Result<void> added = merge(*file);
    note(*file, added.has_value());
    if (added) return add_processes(*file);
    log::warn("window {} is not in its hour: {}", window, added.error().message);
  }

  Result<std::string> finish() && {
    if (windows_ == 0) return fail(ErrorCode::kNotFound, "no window of the hour can be read");
    PprofProfile profile = std::move(profiles_).take();
    std::move(sums_).finish(profile, summary_, record_);
    return encode_window(std::move(profile), summary_, record_);
  }

 private:
  // Processes with few samples have the pid 0.
  [[nodiscard]] ProcessLabels labels_in_hour(ProcessLabels labels) const {
    const auto known = samples_.find(labels);
    if (known == samples_.end() || known->second < kMinSamplesOfPid) labels.pid = 0;
    return labels;
  }

  Result<void> merge(const WindowFile& file) {
    const Result<PprofTables> tables = file.tables();
    if (!tables) return tables.error();
    return profiles_.add(*tables, [this](const PprofTables& from, std::vector<PprofLabel>& labels) {
      if (labels_in_hour(labels_of(from, labels)).pid == 0) drop_pid(from, labels);
      return true;
    });
  }

  static void drop_pid(const PprofTables& from, std::vector<PprofLabel>& labels) {
    for (PprofLabel& label : labels) {
      if (from.texts[label.key] == kPidLabel) label.number = 0;
    }
  }

  void note(const WindowFile& file, bool is_added) {
    const WindowRecord& record = file.record();
    if (windows_++ == 0) {
      summary_ = file.summary();
      summary_.ledger = {};
      record_.start = record.start;
      record_.start_monotonic = record.start_monotonic;
    }
    record_.end = std::max(record_.end, record.end);
    record_.end_monotonic = std::max(record_.end_monotonic, record.end_monotonic);
    summary_.seconds = std::chrono::duration<double>(record_.end - record_.start).count();
    add_ledger(file.summary().ledger, summary_.ledger);
    if (is_added) return;
    const std::uint64_t written = file.summary().ledger.written;
    summary_.ledger.written -= written;
    summary_.ledger.lost[kUnreadable] += written;
  }

  void add_processes(const WindowFile& file) {
    const auto& profiles = file.record().profiles;
    for (std::size_t i = 0; i < profiles.size(); ++i) {
      WindowProfile profile = profiles[i];
      profile.labels = labels_in_hour(std::move(profile.labels));
      ProfileSummary summary = file.summary().profiles[i];
      if (profile.labels.pid == 0) summary.pid = 0;
      sums_.add(std::move(summary), std::move(profile));
    }
  }

  const std::string& windows_dir_;
  std::map<ProcessLabels, std::uint64_t> samples_;
  PprofMerge profiles_{{.drop_addresses = true}};
  WindowSums sums_;
  SessionSummary summary_;
  WindowRecord record_;
  std::size_t windows_ = 0;
};

}  // namespace

Result<std::string> make_hour(const std::string& windows_dir,
                              std::span<const std::string> windows) {
  HourMaker hour(windows_dir);
  for (const std::string& window : windows) hour.count(window);
  for (const std::string& window : windows) hour.add(window);
  return std::move(hour).finish();
}

}  // namespace profd
