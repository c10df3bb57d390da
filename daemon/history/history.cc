#include "daemon/history/history.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>

#include "daemon/base/coroutines.h"
#include "daemon/history/export.h"
#include "daemon/history/shares.h"
#include "daemon/history/target.h"
#include "daemon/history/view.h"
#include "formats/base/log_text.h"
#include "formats/base/time_text.h"

namespace profd {
namespace {

using std::chrono::system_clock;

constexpr std::size_t kHottest = 5;  // processes and groups of each window in a list
constexpr std::size_t kMaxProcesses = 10'000;

system_clock::time_point time_of_ms(std::uint64_t ms) {
  return system_clock::time_point(std::chrono::milliseconds(static_cast<std::int64_t>(ms)));
}

// A request for a list: reads windows one after the other.
class ListJob {
 public:
  using Value = History;

  // A list of the windows, each with as many processes and groups, those that used most.
  ListJob(std::vector<HistoryFile> files, Caller caller, TargetRequest target,
          std::size_t processes, std::size_t groups)
      : files_(std::move(files)),
        caller_(caller),
        target_(std::move(target)),
        processes_(processes),
        groups_(groups) {}

  // Adds the windows up: the list has one.
  void add_up() { sum_.emplace(); }

  Result<bool> advance(std::chrono::steady_clock::duration turn) {
    const auto end = std::chrono::steady_clock::now() + turn;
    while (next_ < files_.size() && std::chrono::steady_clock::now() < end) read_next();
    if (next_ < files_.size()) return false;
    if (auto checked = target_.check(); !checked) return checked.error();
    return true;
  }

  Value take() {
    if (sum_ && !sum_->empty()) {
      history_.windows.push_back(std::move(*sum_).take(processes_, groups_));
    }
    return std::move(history_);
  }

 private:
  // A window that was removed meanwhile, or is malformed, is left out.
  void read_next() {
    const HistoryFile& from = files_[next_++];
    const Result<WindowFile> file = WindowFile::open(from.directory, from.name);
    if (!file) return;
    WindowView view = view_window(*file, caller_);
    target_.apply(view);
    if (sum_) {
      sum_->add(view);
    } else {
      history_.windows.push_back(shares_of(view, processes_, groups_));
    }
  }

  std::vector<HistoryFile> files_;
  Caller caller_;
  WindowTarget target_;
  std::size_t processes_;
  std::size_t groups_;
  std::optional<SharesSum> sum_;
  std::size_t next_ = 0;
  History history_;
};

// A request for the file of a window.
class WindowJob {
 public:
  using Value = std::string;

  WindowJob(std::string windows_dir, std::string name, Caller caller)
      : windows_dir_(std::move(windows_dir)), name_(std::move(name)), caller_(caller) {}

  Result<bool> advance(std::chrono::steady_clock::duration /*turn*/) {
    Result<std::string> bytes = read_window_for(caller_, windows_dir_, name_);
    if (!bytes) return bytes.error();
    bytes_ = std::move(*bytes);
    return true;
  }

  Value take() { return std::move(bytes_); }

 private:
  std::string windows_dir_;
  std::string name_;
  Caller caller_;
  std::string bytes_;
};

Error no_windows_of_blocks() {
  return fail(ErrorCode::kNotFound, "profd keeps no windows of off-CPU time",
              "off_cpu = true in the table [continuous] of /etc/profd/conf.d/history.toml (with "
              "'profd --config FILE': in a file of conf.d beside FILE) switches them on after "
              "'systemctl reload profd' or kill -HUP; 'profctl record -e off-cpu' records now");
}

Error no_windows(const StatusInfo::Continuous& status, bool of_blocks) {
  if (!status.enabled && of_blocks) return no_windows_of_blocks();
  if (!status.enabled) {
    return fail(ErrorCode::kNotFound, "continuous mode is off, and there are no windows",
                "continuous.enabled = true in /etc/profd/conf.d/history.toml (with 'profd --config "
                "FILE': in a file of conf.d beside FILE) switches it on after 'systemctl reload "
                "profd' or kill -HUP");
  }
  if (!status.failed.empty()) {
    return fail(
        ErrorCode::kNotFound,
        "continuous mode is on, but there are no windows (failed: " + text_of(status.failed) + ")",
        "'profctl doctor' shows the remedy");
  }
  return fail(ErrorCode::kNotFound, "continuous mode is on, and there are no windows yet",
              "the first window is kept when it ends; a window takes " +
                  std::to_string(status.window_seconds) + " s");
}

// A clock that was ahead has left windows of the future.
const WindowInfo& last_window(const std::vector<WindowInfo>& windows) {
  const auto now = std::chrono::system_clock::now();
  const auto last = std::find_if(windows.rbegin(), windows.rend(),
                                 [now](const WindowInfo& window) { return window.start <= now; });
  return last == windows.rend() ? windows.back() : *last;
}

// Where hours are in an export of which only a part was asked for.
std::optional<std::string> note_on(const std::vector<HistoryRange>& cut_hours) {
  if (cut_hours.empty()) return std::nullopt;
  std::string hours;
  for (const HistoryRange& hour : cut_hours) {
    hours += (hours.empty() ? "" : " and ") + utc_text(hour.since) + " to " + utc_text(hour.until);
  }
  return "the windows of a part of this time are gone; the export has all of " + hours;
}

SessionInfo info_of_export(const Caller& caller, const ExportRequest& request) {
  SessionInfo info;
  info.session = "history";
  info.state = "ended";
  info.target = request.target;
  info.event = request.event.empty() ? "cpu" : request.event;
  info.started = utc_text(time_of_ms(request.range.since_ms));
  info.uid = caller.uid;
  info.targets_alive = false;
  return info;
}

}  // namespace

template <class Job>
boost::asio::awaitable<Result<typename Job::Value>> WindowHistory::run(Caller caller,
                                                                       std::unique_ptr<Job> job) {
  using Value = typename Job::Value;
  const std::optional<uid_t> user = user_of(caller, owners_);
  std::shared_ptr<void> busy;  // marks an unprivileged caller until the end
  if (user) {
    if (!busy_.insert(*user).second) {
      co_return fail(ErrorCode::kBusy, "another request of yours for the history is active",
                     "wait until it ends");
    }
    busy.reset(this, [user](WindowHistory* self) { self->busy_.erase(*user); });
  }
  while (!shutting_down_) {
    // None: the job needs more turns.
    auto turn = [&job](CodeNaming&) -> Result<std::optional<Value>> {
      auto active = std::move(job);
      const Result<bool> done = active->advance(kTurn);
      if (done && !*done) {
        job = std::move(active);
        return std::optional<Value>();
      }
      std::optional<Value> value;
      if (done) value = active->take();
      active.reset();
      if (!done) return done.error();
      return value;
    };
    auto operation = workers_.run(user, std::move(turn));
    Result<std::optional<Value>> value = co_await std::move(operation);
    if (!value) co_return value.error();
    if (*value) co_return std::move(**value);
  }
  co_return fail(ErrorCode::kUnavailable, "profd is shutting down");
}

Result<RangeFiles> WindowHistory::files_in(const TimeRange& range, PreferHours prefer) const {
  if (windows_.windows().empty() && windows_.hours().empty()) {
    return no_windows(status_(), of_blocks_);
  }
  const HistoryRange times{.since = time_of_ms(range.since_ms),
                           .until = time_of_ms(range.until_ms)};
  return profd::files_in(windows_, times, prefer);
}

boost::asio::awaitable<Result<History>> WindowHistory::list(Caller caller, HistoryRequest request) {
  // In an hour, processes with few samples have no pid.
  const bool may_use_hours = request.sum && request.target.pids.empty();
  Result<RangeFiles> found =
      files_in(request.range, may_use_hours ? PreferHours::kYes : PreferHours::kNo);
  if (!found) co_return found.error();
  std::vector<HistoryFile>& files = found->files;
  const std::size_t most = request.sum ? files.size() : request.limit;
  const std::size_t left_out = files.size() - std::min(files.size(), most);
  files.erase(files.begin(), files.begin() + static_cast<std::ptrdiff_t>(left_out));
  const std::size_t groups = request.groups != 0 ? request.groups : kHottest;
  auto job = std::make_unique<ListJob>(std::move(files), caller, std::move(request.target),
                                       request.sum ? kMaxProcesses : kHottest,
                                       request.sum ? kMaxProcesses : groups);
  if (request.sum) job->add_up();
  auto operation = run(caller, std::move(job));
  Result<History> history = co_await std::move(operation);
  if (history) history->left_out = left_out;
  co_return history;
}

boost::asio::awaitable<Result<WindowShares>> WindowHistory::last(Caller caller) {
  std::vector<HistoryFile> files;
  if (!windows_.windows().empty()) {
    files.push_back({windows_.windows_dir(), last_window(windows_.windows()).name});
  } else if (!windows_.hours().empty()) {
    files.push_back({windows_.hours_dir(), windows_.hours().back().name});
  } else {
    co_return no_windows(status_(), of_blocks_);
  }
  auto job = std::make_unique<ListJob>(std::move(files), caller, TargetRequest(), kMaxProcesses,
                                       kMaxProcesses);
  auto operation = run(caller, std::move(job));
  Result<History> history = co_await std::move(operation);
  if (!history) co_return history.error();
  if (history->windows.empty()) {
    co_return fail(ErrorCode::kIo, "could not read the last window", "try again");
  }
  co_return std::move(history->windows.front());
}

boost::asio::awaitable<Result<WindowNames>> WindowHistory::names_after(
    Caller caller, std::string after, std::function<bool()> is_wanted,
    std::chrono::milliseconds patience) {
  if (!after.empty() && !is_window_name(after)) {
    co_return fail(ErrorCode::kInvalidArgument, "no window can have the name " + log_text(after));
  }
  boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor);
  const auto end = std::chrono::steady_clock::now() + patience;
  const std::size_t most = caller.privileged ? SIZE_MAX : kMaxNamesOfUser;
  WindowNames names;
  bool is_first = true;
  while (!shutting_down_ && is_wanted()) {
    names.windows = windows_.names_after(after, most);
    // While none is after it, none can be removed.
    if (std::exchange(is_first, false) || !names.windows.empty()) {
      names.removed = windows_.removed_after(after, most);
    }
    const bool is_empty = names.windows.empty() && names.removed.empty();
    if (!is_empty || std::chrono::steady_clock::now() >= end) break;
    timer.expires_after(kCheck);
    co_await wait_for(timer);
  }
  co_return names;
}

boost::asio::awaitable<Result<std::string>> WindowHistory::read_window(Caller caller,
                                                                       std::string name) {
  // Anything may lie in the directory while profd runs.
  const bool is_known =
      std::ranges::find(windows_.windows(), name, &WindowInfo::name) != windows_.windows().end();
  if (!is_known) {
    co_return fail(ErrorCode::kNotFound, "no window is called " + log_text(name));
  }
  auto job = std::make_unique<WindowJob>(windows_.windows_dir(), std::move(name), caller);
  auto operation = run(caller, std::move(job));
  co_return co_await std::move(operation);
}

boost::asio::awaitable<Result<StoredResult>> WindowHistory::make_export(Caller caller,
                                                                        ExportRequest request,
                                                                        ExportPlace place) {
  // In an hour, processes with few samples have no pid.
  const PreferHours prefer = request.target.pids.empty() ? PreferHours::kYes : PreferHours::kNo;
  Result<RangeFiles> found = files_in(request.range, prefer);
  if (!found) co_return found.error();
  ExportPlan plan;
  plan.results_dir = std::move(place.directory);
  plan.account = std::move(place.account);
  plan.result.user = place.user;
  plan.files = std::move(found->files);
  plan.result.info.note = note_on(found->cut_hours);
  plan.caller = caller;
  plan.max_bytes = place.max_memory_bytes;
  plan.result.session = info_of_export(caller, request);
  plan.profile_only = request.profile_only;
  plan.result.is_dump = true;
  plan.result.keep = kShortKeeping;
  plan.result.info.result = "history-dump-" + random_id();
  plan.target = std::move(request.target);
  auto job = std::make_unique<HistoryExport>(std::move(plan));
  auto operation = run(caller, std::move(job));
  co_return co_await std::move(operation);
}

}  // namespace profd
