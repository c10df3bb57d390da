#include "daemon/xray/directory.h"

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "collectors/host/clock.h"
#include "collectors/xray/log_result.h"
#include "daemon/base/coroutines.h"
#include "daemon/base/log.h"
#include "formats/base/log_text.h"
#include "formats/base/time_text.h"

namespace profd {
namespace {

using boost::asio::posix::stream_descriptor;
// Reading a trace of 1 GiB takes some seconds.
constexpr ParserLimits kLimits{.memory_bytes = xray::kLogMemoryBytes,
                               .answer_bytes = xray::kLogResultBytes,
                               .cpu_time = std::chrono::milliseconds(60'000),
                               .wall_time = std::chrono::milliseconds(120'000)};

// In one turn of the io thread, which others need: an open takes some 20 us.
constexpr std::size_t kMaxOpensOfTurn = 64;
// An event with a name takes its fixed part and as much for the name, at least.
constexpr std::size_t kEventBytesOfTurn = kMaxOpensOfTurn * 2 * sizeof(inotify_event);
static_assert(kEventBytesOfTurn >= sizeof(inotify_event) + NAME_MAX + 1);

// Between two scans, as when a user makes more events than the daemon reads: at least so long, and
// so many times as long as the scan took.
constexpr std::chrono::seconds kScanPause{1};
constexpr int kPauseOfScan = 10;

// Reads a trace and writes its result. On the worker.
Result<StoredResult> write_trace(const std::string& results_dir, int trace, CodeNaming& naming,
                                 XrayMeasurement& measurement, StoredResult result,
                                 ResultAccount account) {
  const auto& program = measurement.target.program;
  auto calls = naming.parser().read_xray_log(trace, program ? program->fd.get() : -1);
  if (!calls) return calls.error();
  measurement.result = std::move(*calls);
  auto writer = ResultWriter::create(results_dir, std::move(account));
  if (!writer) return writer.error();
  auto summary = write_xray(measurement, naming, *writer);
  if (!summary) return summary.error();
  result.session.samples = summary->ledger.written;
  return commit_result(std::move(*writer), std::move(*summary), std::move(result));
}

SessionInfo session_of(const std::string& id, uid_t owner, pid_t process) {
  SessionInfo session;
  session.session = id;
  session.state = "ended";
  if (process > 0) session.target.pids = {static_cast<std::uint32_t>(process)};
  session.event = "xray-log";
  session.period = 1;
  session.started = utc_text(std::chrono::system_clock::now());
  session.uid = owner;
  session.targets_alive = false;
  return session;
}

}  // namespace

Result<std::unique_ptr<XrayDirectory>> XrayDirectory::open(const Parts& parts,
                                                           const std::string& path) {
  UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  UniqueFd events(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!directory.valid() || !events.valid() ||
      ::inotify_add_watch(events.get(), path.c_str(),
                          IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_TO | IN_ONLYDIR) < 0) {
    return fail_errno("could not watch " + path);
  }
  auto parser = Parser::start(kLimits);
  if (!parser) return parser.error();
  return std::unique_ptr<XrayDirectory>(
      new XrayDirectory(parts, std::move(directory), std::move(events), std::move(*parser)));
}

XrayDirectory::XrayDirectory(const Parts& parts, UniqueFd directory, UniqueFd events,
                             std::unique_ptr<Parser> parser)
    : parts_(parts),
      directory_(std::move(directory)),
      events_(parts.io, events.release()),
      scan_pause_(parts.io),
      retry_(parts.io),
      stamp_(std::filesystem::path(parts.store.directory()).parent_path() / "xray-read"),
      worker_(std::move(parser), "xray-worker") {
  struct stat status {};
  if (::stat(stamp_.c_str(), &status) == 0) {
    complete_ns_ = nanoseconds_of(status.st_mtim);
  }
  scan();
  spawn(parts_.io, watch());
}

void XrayDirectory::stop() {
  boost::system::error_code ignored;
  events_.close(ignored);
  waiting_.clear();
  retry_.cancel();
  scan_pause_.cancel();
}

boost::asio::awaitable<void> XrayDirectory::watch() {
  for (;;) {
    const bool is_readable = co_await wait_readable(events_);
    if (!is_readable) co_return;
    read_events();
  }
}

// No coroutine: g++ 12 does not align the variables of one.
void XrayDirectory::read_events() {
  alignas(inotify_event) std::array<char, kEventBytesOfTurn> bytes{};
  const ssize_t got = ::read(events_.native_handle(), bytes.data(), bytes.size());
  for (ssize_t at = 0; at < got;) {
    const auto* const event = reinterpret_cast<const inotify_event*>(bytes.data() + at);
    if ((event->mask & IN_Q_OVERFLOW) != 0) {
      ++counts_.missed;
      scan();
    }
    if (event->len != 0 && (event->mask & IN_CREATE) != 0) check_creation(event->name);
    if (event->len != 0 && (event->mask & IN_CREATE) == 0) add(event->name);
    at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
  }
}

// A scan that is under way continues to its end, so that many events don't keep it from finding the
// last traces.
void XrayDirectory::scan() {
  is_scan_wanted_ = is_scanning_;
  if (is_scanning_) return;
  begin_scan();
  is_scanning_ = add_some();
  if (is_scanning_) spawn(parts_.io, scan_rest());
}

void XrayDirectory::begin_scan() {
  scan_began_ = std::chrono::steady_clock::now();
  const Result<void> begun = scan_.begin(directory_.get());
  if (!begun) log::warn("{}", begun.error().message);
}

void XrayDirectory::end_scan() {
  if (!scan_.was_cut()) return;
  ++counts_.missed;
  log::warn(
      "the directory of traces has more than {} entries; traces among the others are not found",
      DirectoryScan::kMaxEntries);
}

boost::asio::awaitable<void> XrayDirectory::scan_rest() {
  while (is_scanning_ && events_.is_open()) {
    co_await yield();
    if (!events_.is_open()) break;
    is_scanning_ = add_some();
    if (is_scanning_ || !std::exchange(is_scan_wanted_, false)) continue;
    is_scanning_ = true;
    const auto took = std::chrono::steady_clock::now() - scan_began_;
    scan_pause_.expires_after(
        std::max<std::chrono::steady_clock::duration>(kScanPause, kPauseOfScan * took));
    co_await wait_for(scan_pause_);
    if (events_.is_open()) begin_scan();
  }
  is_scanning_ = false;
  if (events_.is_open()) begin_reading();  // which sets the stamp, also if there is nothing to read
}

// Adds some of the traces that have changed since all were read. The queue finds those that it has
// already. False: the scan is over.
bool XrayDirectory::add_some() {
  const bool is_under_way = scan_.step([this](const char* name, const struct stat& status) {
    // The change time: the owner of a file cannot set it, only change the file.
    if (nanoseconds_of(status.st_ctim) > complete_ns_) add(name);
  });
  if (!is_under_way) end_scan();
  return is_under_way;
}

// Called when no trace can be read: a daemon that ends before finds unread traces again at its next
// start. It does not find those that wait for room, since otherwise one owner could have all traces
// of the others read twice. A scan under way has not found all traces that are older than others,
// nor has one that was cut.
void XrayDirectory::set_stamp() {
  if (is_scanning_ || scan_.was_cut() || newest_ns_ == 0) return;  // 0: no trace was added
  if (std::exchange(complete_ns_, newest_ns_) == newest_ns_) return;
  const UniqueFd stamp(
      ::open(stamp_.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600));
  const timespec time{.tv_sec = complete_ns_ / 1'000'000'000,
                      .tv_nsec = complete_ns_ % 1'000'000'000};
  const timespec both[] = {time, time};
  if (stamp.valid()) (void)::futimens(stamp.get(), both);
}

// Logs at most one line a second, since users can cause any number of refusals.
void XrayDirectory::refuse(const std::string& name, uid_t owner, const std::string& why) {
  ++counts_.refused;
  if (parts_.refusals != nullptr) parts_.refusals->add(owner, "xray.traces_refused");
  const auto now = std::chrono::steady_clock::now();
  if (now - last_logged_ < std::chrono::seconds(1)) {
    ++unlogged_refusals_;
    return;
  }
  last_logged_ = now;
  const std::uint64_t others = std::exchange(unlogged_refusals_, 0);
  log::warn("could not read the trace {}: {} ({} others before)", log_text(name), log_text(why),
            others);
}

// Counts files that are not regular. A regular file is added when its writer closes it or moves it
// here; a link or a pipe is never closed.
void XrayDirectory::check_creation(const std::string& name) {
  struct stat status {};
  if (!name.starts_with(kTracePrefix) ||
      ::fstatat(directory_.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return;
  }
  if (!S_ISREG(status.st_mode)) refuse(name, status.st_uid, "not a regular file");
}

void XrayDirectory::add(const std::string& name) {
  if (!name.starts_with(kTracePrefix)) return;
  if (!parts_.closer.has_room()) return defer(name);
  UniqueFd file(::openat(directory_.get(), name.c_str(),
                         O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  Trace trace{.name = name,
              .file = parts_.closer.closed_here(
                  std::shared_ptr<const UniqueFd>(new UniqueFd(std::move(file))))};
  struct stat status {};
  if (!trace.file->valid() || ::fstat(trace.file->get(), &status) != 0) {
    return refuse(name, UserRefusals::kUnknownUser, fail_errno("could not open").message);
  }
  trace.owner = status.st_uid;
  trace.user = parts_.owners.owner_of(trace.owner);
  newest_ns_ = std::max(newest_ns_, nanoseconds_of(status.st_ctim));
  const auto added = waiting_.add(std::move(trace), status);
  if (!added) return refuse(name, status.st_uid, added.error().message);
  if (*added) begin_reading();
}

// While too many files wait to be closed, none is opened, since descriptors are few.
void XrayDirectory::defer(const std::string& name) {
  struct stat status {};
  if (::fstatat(directory_.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return;
  const Trace trace{.name = name,
                    .file = nullptr,
                    .owner = status.st_uid,
                    .user = parts_.owners.owner_of(status.st_uid)};
  if (const auto deferred = waiting_.defer(trace); !deferred) {
    return refuse(name, status.st_uid, deferred.error().message);
  }
  begin_reading();
}

void XrayDirectory::begin_reading() {
  retry_.cancel();
  if (std::exchange(is_reading_, true)) return;
  spawn(parts_.io, read_all());
}

bool XrayDirectory::has_room(uid_t user) const {
  if (user == 0) return true;
  const auto results = std::ranges::count_if(parts_.store.all(), [&](const StoredResult* one) {
    return parts_.owners.owner_of(one->session.uid) == user;
  });
  return static_cast<std::size_t>(results) < kMaxResultsOfUid;
}

// True: there may be more of them, for another turn.
bool XrayDirectory::add_deferred() {
  if (!parts_.closer.has_room()) return false;  // they would be deferred again
  const std::vector<std::string> names = waiting_.take_deferred(kMaxOpensOfTurn);
  for (const std::string& name : names) add(name);
  return names.size() == kMaxOpensOfTurn;
}

std::optional<XrayDirectory::Trace> XrayDirectory::next() {
  return waiting_.next(std::chrono::steady_clock::now(),
                       [this](uid_t user) { return has_room(user); });
}

boost::asio::awaitable<void> XrayDirectory::read_all() {
  while (events_.is_open()) {
    if (add_deferred()) {
      co_await yield();
      continue;
    }
    if (auto trace = next()) {
      const auto begin = std::chrono::steady_clock::now();
      auto reading = read(*trace);
      Result<StoredResult> result = co_await std::move(reading);
      const auto end = std::chrono::steady_clock::now();
      waiting_.count_reading(trace->user, end - begin, end);
      if (!result) {
        refuse(trace->name, trace->owner, result.error().message);
        continue;
      }
      ++counts_.logs;
      log::info("the trace {} is result {} of uid {}", log_text(trace->name), result->info.result,
                trace->owner);
      parts_.store.adopt(std::move(*result));
      continue;
    }
    set_stamp();
    if (waiting_.empty()) break;
    retry_.expires_after(parts_.retry);
    (void)co_await wait_for(retry_);
  }
  is_reading_ = false;
}

// The writer chose the pid in the trace, so a process of another user is not believed to be it. On
// the worker, since the program may take 50 ms to open.
XrayTarget XrayDirectory::writer_of(const std::string& trace, uid_t owner, pid_t process) {
  if (process > 0 && effective_uid_of(process) == owner) {
    auto found = find_xray_target(process, runner_, parts_.closer);
    if (found) return std::move(*found);
  }
  XrayTarget unknown;
  unknown.pid = process;
  unknown.comm = trace.substr(kTracePrefix.size());
  unknown.comm.resize(std::min(unknown.comm.size(), unknown.comm.rfind('.')));
  return unknown;
}

boost::asio::awaitable<Result<StoredResult>> XrayDirectory::read(Trace& trace) {
  auto find = [file = trace.file](CodeNaming& naming) {
    return naming.parser().find_xray_process(file->get());
  };
  const Result<std::int32_t> process = co_await worker_.run(std::move(find));
  if (!process) co_return process.error();
  StoredResult result;
  result.info.result = parts_.unused_id();
  result.session = session_of(result.info.result, trace.owner, *process);
  if (trace.owner != 0) {
    result.keep = kShortKeeping;
    result.user = trace.user;
  }
  XrayMeasurement measurement{.session = result.info.result,
                              .started = std::chrono::system_clock::now(),
                              .lasted = {},
                              .target = {},
                              .privileged = trace.owner == 0,
                              .end = {},
                              .result = {}};
  const ResultAccount account = parts_.store.account_of(result.user);
  auto write = [this, name = trace.name, owner = trace.owner, process = *process,
                results_dir = parts_.store.directory(), file = trace.file,
                measurement = std::move(measurement), account,
                result = std::move(result)](CodeNaming& naming) mutable {
    measurement.target = writer_of(name, owner, process);
    return write_trace(results_dir, file->get(), naming, measurement, std::move(result), account);
  };
  co_return co_await worker_.run(std::move(write));
}

}  // namespace profd
