#include "daemon/history/writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <utility>

#include "collectors/host/host_checks.h"
#include "daemon/base/log.h"
#include "daemon/history/read_back.h"
#include "daemon/history/window_file.h"
#include "daemon/profiles/counted_samples.h"
#include "daemon/profiles/profile_files.h"
#include "daemon/profiles/stack_counts.h"
#include "daemon/storage/file_io.h"

namespace profd {
namespace {

constexpr std::size_t kMaxEntries = 20'000;

// Of the names of one user's files that are new in a window. More than kMaxUserBytes of them would
// not be written.
constexpr std::uint64_t kNewNamesBytes = std::uint64_t{8} << 20;

WindowRecord record_of(const SessionSnapshot& snapshot) {
  const auto lasted =
      std::chrono::duration_cast<std::chrono::system_clock::duration>(snapshot.lasted);
  return {.start = snapshot.started,
          .end = snapshot.started + lasted,
          .start_monotonic = snapshot.started_monotonic,
          .end_monotonic = snapshot.started_monotonic + snapshot.lasted,
          .profiles = {}};
}

WindowProfile window_profile_of(const ProcessSnapshot& process, ProcessLabels labels) {
  const ProcessImage& image = *process.image;
  return {.owner = process.samples.owner,
          .user = image.identified ? std::optional(image.uid) : std::nullopt,
          .cgroup = image.cgroup,
          .labels = std::move(labels)};
}

}  // namespace

WindowWriter::WindowWriter(std::string windows_dir, std::unique_ptr<Parser> parser,
                           std::shared_ptr<SharedKernelSymbols> kernel, UidOwners owners)
    : windows_dir_(std::move(windows_dir)),
      naming_(std::move(parser), {}, std::move(kernel)),
      entries_(naming_.parser()),
      owners_(std::move(owners)) {}

NamedProfile WindowWriter::name_frames(const SessionSnapshot& snapshot, SymbolBudgets& symbols) {
  if (!std::exchange(has_read_back_, true)) {
    naming_.add_read_back(read_names_back(windows_dir_, naming_.cache()));
  }
  const UserNames users = read_user_names();
  NamedProfile named = build_named_profile(snapshot,
                                           {.files = naming_.files(),
                                            .kernel = naming_.kernel(),
                                            .budgets = symbols,
                                            .users = users,
                                            .line_budget = &naming_.window_lines(),
                                            .pods = &pods_},
                                           host_name());
  naming_.finish(named.shares);
  stats_.set(naming_.stats());
  return named;
}

WindowSums WindowWriter::count_processes(const SessionSnapshot& snapshot, const NamedProfile& named,
                                         SymbolBudgets& symbols) {
  entries_.trim(kMaxEntries);
  WindowSums sums;
  for (std::size_t i = 0; i < snapshot.processes.size(); ++i) {
    const ProcessSnapshot& process = snapshot.processes[i];
    sums.add(count_stacks(process, entries_, symbols),
             window_profile_of(process, labels_of(named.profile, named.label_sets[i])));
  }
  return sums;
}

Result<WindowInfo> WindowWriter::write(const SessionSnapshot& snapshot, const UserLimits& limits) {
  SymbolBudgets symbols({.kept_bytes = kNewNamesBytes});
  NamedProfile named = name_frames(snapshot, symbols);
  round_to_microseconds(named.profile);
  WindowSums sums = count_processes(snapshot, named, symbols);
  UserParts parts = limit_user_shares(named.profile, sums, owners_, limits);
  SessionSummary summary = summarize(snapshot);
  WindowRecord record = record_of(snapshot);
  record.named_files = named_files_of(named.profile, named.files);
  std::move(sums).finish(named.profile, summary, record);
  summary.ledger = ledger_of(snapshot, summary.profiles);
  const std::string bytes =
      encode_window(std::move(named.profile), summary, record, {.users = std::move(parts.users)});
  Result<WindowHead> head = decode_window_head(bytes);
  if (!head) return head.error();
  int error_number = 0;
  const Result<void> written = write_window(windows_dir_, snapshot.session, bytes, &error_number);
  is_disk_full_ = error_number == ENOSPC || error_number == EDQUOT;
  if (!written) return written.error();
  return WindowInfo{.name = snapshot.session,
                    .start = record.start,
                    .end = record.end,
                    .disk_bytes = disk_bytes_of(bytes.size()),
                    .over_share_samples = parts.over_share_samples,
                    .over_share_by_uid = std::move(parts.over_share_by_uid),
                    .users = std::move(head->parts.users)};
}

std::size_t remove_history_files(const std::string& directory,
                                 const std::vector<std::string>& names) {
  if (names.empty()) return 0;
  std::size_t failed = 0;
  const UniqueFd parent = open_directory(AT_FDCWD, directory);
  for (const std::string& name : names) {
    const std::string file = name + std::string(kWindowFileEnd);
    if (::unlinkat(parent.get(), file.c_str(), 0) == 0) continue;
    log::warn("could not remove an old file: {}", fail_errno("could not remove " + file).message);
    ++failed;
  }
  return failed;
}

}  // namespace profd
