#include "daemon/history/writer.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

#include "daemon/base/log.h"
#include "daemon/history/files.h"
#include "daemon/history/jit_images.h"
#include "daemon/history/objects.h"
#include "daemon/profiles/profile_files.h"
#include "daemon/storage/result_writer.h"

namespace profd {
namespace {

// Not the lowest priority: windows matter most on a host that is busy for minutes, where nice 19
// gets almost no CPU time and the idle class no disk time. With 50 tasks on a CPU, 100 ms of work
// at nice 10 take a minute.
constexpr int kNice = 5;

// From <linux/ioprio.h>, which C++ can't include.
constexpr int kIoPriorityOfThread = 1;       // IOPRIO_WHO_PROCESS
constexpr int kLowIoPriority = 2 << 13 | 7;  // the last level of IOPRIO_CLASS_BE
constexpr std::size_t kMaxEntries = 20'000;

// Snapshot and summary have the same order.
std::vector<WindowProfile> profiles_of(const SessionSnapshot& snapshot,
                                       const SessionSummary& summary) {
  std::vector<WindowProfile> profiles;
  for (std::size_t i = 0; i < summary.profiles.size(); ++i) {
    const ProcessSnapshot& process = snapshot.processes[i];
    profiles.push_back(
        {.path = summary.profiles[i].path,
         .owner = process.samples.owner,
         .user = process.image.identified ? std::optional(process.image.uid) : std::nullopt,
         .cgroup = process.image.cgroup});
  }
  return profiles;
}

WindowRecord record_of(const SessionSnapshot& snapshot, const SessionSummary& summary,
                       std::vector<std::string> objects) {
  const auto lasted =
      std::chrono::duration_cast<std::chrono::system_clock::duration>(snapshot.lasted);
  return {.start = snapshot.started,
          .end = snapshot.started + lasted,
          .start_monotonic = snapshot.started_monotonic,
          .end_monotonic = snapshot.started_monotonic + snapshot.lasted,
          .disk_bytes = 0,
          .objects = std::move(objects),
          .profiles = profiles_of(snapshot, summary)};
}

std::uint64_t start_second_of(const SessionSnapshot& snapshot) {
  const auto since = snapshot.started.time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::floor<std::chrono::seconds>(since).count());
}

// The size of all files and of the directory, in whole blocks.
std::uint64_t disk_bytes_of_all(const std::vector<ResultFile>& files) {
  std::uint64_t bytes = disk_bytes_of(1);
  for (const ResultFile& file : files) bytes += disk_bytes_of(file.bytes);
  return bytes;
}

// Adds session.json and window.json, and commits the window.
Result<WindowInfo> finish(ResultWriter& result, const SessionSummary& summary,
                          WindowRecord record) {
  if (auto added = result.add(kWindowSummaryFile, to_json(summary)); !added) return added.error();
  record.disk_bytes = disk_bytes_of_all(result.files()) + disk_bytes_of(to_json(record).size());
  if (auto added = result.add(kWindowRecordFile, to_json(record)); !added) return added.error();
  if (auto committed = result.commit(summary.session); !committed) return committed.error();
  return WindowInfo{.name = summary.session,
                    .start = record.start,
                    .end = record.end,
                    .disk_bytes = record.disk_bytes};
}

}  // namespace

std::vector<std::string> names_of(const ObjectBytes& objects) {
  std::vector<std::string> names;
  for (const auto& [name, bytes] : objects) names.push_back(name);
  return names;
}

WindowWriter::WindowWriter(std::string windows_dir, const std::string& objects_dir,
                           std::unique_ptr<Parser> parser)
    : windows_dir_(std::move(windows_dir)),
      parser_(std::move(parser)),
      objects_(objects_dir, *parser_),
      kernel_(objects_),
      entries_(*parser_) {}

Result<WindowInfo> WindowWriter::write(const SessionSnapshot& snapshot, ObjectBytes& object_bytes) {
  objects_.trim();
  entries_.trim(kMaxEntries);
  Result<ResultWriter> result = ResultWriter::create(windows_dir_);
  if (!result) return result.error();
  WindowObjects objects(objects_);
  const KernelImage kernel = kernel_.image_for(kernel_addresses(snapshot));
  SymbolBudgets symbols;
  WindowJitImages jit(*parser_, objects_, snapshot.session, start_second_of(snapshot),
                      object_bytes);
  const Result<SessionSummary> summary = write_profiles(
      snapshot,
      {.objects = objects, .kernel = kernel, .entries = entries_, .symbols = symbols, .jit = &jit},
      *result);
  if (!summary) return summary.error();
  if (auto written = objects.write(symbols, object_bytes); !written) return written.error();
  if (has_kernel_frames(snapshot)) {
    const Result<std::uint64_t> bytes = kernel_.write();
    if (!bytes) return bytes.error();
    object_bytes[kernel_.name()] = *bytes;
  }
  if (auto synced = objects_.sync(); !synced) return synced.error();
  return finish(*result, *summary, record_of(snapshot, *summary, names_of(object_bytes)));
}

std::size_t WindowWriter::remove(const Evicted& evicted) {
  std::size_t failed = 0;
  const UniqueFd windows(::open(windows_dir_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (const std::string& name : evicted.windows) {
    if (const Result<void> removed = remove_whole(windows.get(), name); !removed) {
      log::warn("could not remove an old window: {}", removed.error().message);
      ++failed;
    }
  }
  for (const std::string& name : evicted.objects) {
    if (const Result<void> removed = objects_.remove(name); !removed) ++failed;
  }
  return failed;
}

void take_low_priority() {
  const auto thread = static_cast<id_t>(::gettid());
  (void)::setpriority(PRIO_PROCESS, thread, kNice);
  (void)::syscall(SYS_ioprio_set, kIoPriorityOfThread, thread, kLowIoPriority);
}

}  // namespace profd
