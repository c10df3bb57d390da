#include "daemon/history/hour_file.h"

#include <algorithm>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/history/hour_size.h"
#include "formats/profile/block_names.h"

namespace profd {
namespace {

constexpr const char* kUnreadableWindow = "unreadable";
constexpr const char* kPidLabel = "pid";

// Of an entry in the map of processes, besides the texts.
constexpr std::uint64_t kProcessMemory = sizeof(ProcessLabels) + 96;

std::uint64_t bytes_of_texts(const ProcessLabels& labels) {
  return labels.comm.size() + labels.unit.size() + labels.container.size() + labels.pod.size() +
         labels.user.size() + labels.runtime.size();
}

void add_ledger(const SessionLedger& from, SessionLedger& to) {
  to.taken += from.taken;
  to.written += from.written;
  for (const auto& [reason, count] : from.lost) to.lost[reason] += count;
}

void drop_pid(const PprofTables& from, std::vector<PprofLabel>& labels) {
  for (PprofLabel& label : labels) {
    if (from.texts[label.key] == kPidLabel) label.number = 0;
  }
}

ProcessLabels without_pid(ProcessLabels labels) {
  labels.pid = 0;
  return labels;
}

}  // namespace

Result<bool> HourMaker::advance(std::chrono::steady_clock::duration turn) {
  const auto end = std::chrono::steady_clock::now() + turn;
  do {
    Result<bool> done = step();
    if (!done || *done) return done;
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

Result<bool> HourMaker::step() {
  if (counted_ < plan_.windows.size()) {
    const bool fits = count(plan_.windows[counted_]);
    if (fits) ++counted_;
    if (!fits || processes_bytes_ > max_memory_ / 2) plan_.windows.resize(counted_);
    if (counted_ == plan_.windows.size()) find_mixed();
    return false;
  }
  const bool is_full = next_ != 0 && memory_bytes() > max_memory_;
  if (next_ < plan_.windows.size() && !is_full) {
    add(plan_.windows[next_++]);
    return false;
  }
  plan_.windows.resize(next_);
  if (Result<void> made = finish(); !made) return made.error();
  return true;
}

std::uint64_t HourMaker::memory_bytes() const {
  return processes_bytes_ + profiles_.profile().bytes() + sums_.bytes();
}

// The samples of each process over the hour decide whether it keeps its pid. False: the window has
// another period than those before it.
bool HourMaker::count(const std::string& window) {
  const Result<WindowFile> file = WindowFile::open(plan_.windows_dir, window);
  if (!file) return true;
  if (period_us_ == 0) period_us_ = file->summary().period_us;
  if (period_us_ != file->summary().period_us) return false;
  if (file->summary().event == kOffCpuEvent) min_samples_of_pid_ = kMinBlockedUsOfPid;
  const auto& profiles = file->record().profiles;
  for (std::size_t i = 0; i < profiles.size(); ++i) {
    const auto [known, is_new] =
        processes_.try_emplace(profiles[i].labels, Process{.owner = profiles[i].owner});
    if (is_new) processes_bytes_ += kProcessMemory + bytes_of_texts(profiles[i].labels);
    if (known->second.owner != profiles[i].owner) known->second.owner.reset();
    known->second.samples += file->summary().profiles[i].samples;
  }
  return true;
}

// Processes of two owners that have all else in common keep their pids.
void HourMaker::find_mixed() {
  std::map<ProcessLabels, std::optional<ProcessOwner>> owners;
  for (const auto& [labels, process] : processes_) {
    if (process.samples >= min_samples_of_pid_) continue;
    ProcessLabels shared = without_pid(labels);
    const auto known = owners.try_emplace(shared, process.owner).first;
    if (known->second != process.owner) mixed_.insert(std::move(shared));
  }
}

void HourMaker::add(const std::string& window) {
  const Result<WindowFile> file = WindowFile::open(plan_.windows_dir, window);
  if (!file) return log::warn("window {} is not in its hour: {}", window, file.error().message);
  const Result<void> added = merge(*file);
  note(*file, added.has_value());
  if (added) return add_processes(*file);
  log::warn("window {} is not in its hour: {}", window, added.error().message);
}

ProcessLabels HourMaker::labels_in_hour(ProcessLabels labels) const {
  const auto known = processes_.find(labels);
  if (known != processes_.end() && known->second.samples >= min_samples_of_pid_) return labels;
  ProcessLabels shared = without_pid(labels);
  return mixed_.contains(shared) ? labels : shared;
}

Result<void> HourMaker::merge(const WindowFile& file) {
  const Result<PprofTables> tables = file.tables();
  if (!tables) return tables.error();
  return profiles_.add(*tables, [this](const PprofTables& from, std::vector<PprofLabel>& labels) {
    if (labels_in_hour(labels_of(from, labels)).pid == 0) drop_pid(from, labels);
    return true;
  });
}

void HourMaker::note(const WindowFile& file, bool is_added) {
  const WindowRecord& record = file.record();
  if (merged_++ == 0) {
    summary_ = file.summary();
    summary_.session = plan_.name;
    summary_.ledger = {};
    summary_.blocks.reset();  // of one window
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
  summary_.ledger.lost[kUnreadableWindow] += written;
}

void HourMaker::add_processes(const WindowFile& file) {
  const auto& profiles = file.record().profiles;
  for (std::size_t i = 0; i < profiles.size(); ++i) {
    WindowProfile profile = profiles[i];
    profile.labels = labels_in_hour(std::move(profile.labels));
    ProfileSummary summary = file.summary().profiles[i];
    if (profile.labels.pid == 0) summary.pid = 0;
    sums_.add(std::move(summary), std::move(profile));
  }
}

std::string HourMaker::encode(PprofProfile& profile, const std::vector<UserBytes>& users) {
  return encode_within(plan_.max_bytes, profile, [&](PprofProfile& hour, double part) {
    WindowParts of_hour{.users = users, .windows = plan_.windows};
    for (UserBytes& user : of_hour.users) {
      user.bytes = static_cast<std::uint64_t>(static_cast<double>(user.bytes) * part);
    }
    return encode_window_of(hour, summary_, record_, std::move(of_hour));
  });
}

Result<void> HourMaker::finish() {
  if (merged_ == 0) return fail(ErrorCode::kNotFound, "no window of the hour can be read");
  PprofProfile profile = std::move(profiles_).take();
  UserParts parts = limit_user_shares(profile, sums_, plan_.owners, plan_.limits);
  std::move(sums_).finish(profile, summary_, record_);
  const std::string bytes = encode(profile, parts.users);
  Result<WindowHead> head = decode_window_head(bytes);
  if (!head) return head.error();
  // Else its windows would be removed in favor of a file that nobody can read.
  if (bytes.size() > kMaxWindowFileBytes) {
    return fail(ErrorCode::kTooLarge,
                "the file would have " + std::to_string(bytes.size()) + " bytes");
  }
  if (const auto file = WindowFile::decode(bytes, plan_.max_unpacked_bytes); !file) {
    return file.error();
  }
  if (auto written = write_window(plan_.hours_dir, plan_.name, bytes); !written) return written;
  made_ = {.name = plan_.name,
           .start = head->start,
           .end = head->end,
           .disk_bytes = disk_bytes_of(bytes.size()),
           .over_share_samples = parts.over_share_samples,
           .over_share_by_uid = std::move(parts.over_share_by_uid),
           .parts = std::move(head->parts)};
  return {};
}

}  // namespace profd
