// The requests of callers about the windows of continuous mode: lists of the windows and of the
// processes that used the CPU in them, and exports of a range.
//
// Hour files stand for windows that are gone (range_files.h). The workers read and merge
// windows in short turns, so that the stop of a session never waits for more than one turn. An
// unprivileged caller can have one active request of the windows of the CPU time, and one of those
// of the time off the CPU, which are another WindowHistory. On the io thread.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "collectors/host/uid_owners.h"
#include "daemon/history/range_files.h"
#include "daemon/history/store.h"
#include "daemon/service/caller.h"
#include "daemon/storage/result_store.h"
#include "daemon/storage/result_workers.h"
#include "formats/api/history_api.h"
#include "formats/api/status_info.h"
#include "formats/base/result.h"

namespace profd {

class WindowHistory {
 public:
  // The time for which a request uses the worker in one turn. A turn ends after the step that
  // exceeds it.
  static constexpr std::chrono::milliseconds kTurn{10};

  // How long names_after() waits, and how often it checks.
  static constexpr std::chrono::seconds kPatience{60};
  static constexpr std::chrono::milliseconds kCheck{200};

  // Of an answer of names_after() for an unprivileged caller, who can ask many times at once.
  static constexpr std::size_t kMaxNamesOfUser = 256;

  // Returns the current status of continuous mode.
  using Status = std::function<StatusInfo::Continuous()>;

  // The references, and what `status` refers to, must outlive *this. `of_blocks`: the windows are
  // of the time off the CPU.
  WindowHistory(const WindowStore& windows, ResultWorkers& workers, UidOwners& owners,
                Status status, bool of_blocks = false)
      : windows_(windows),
        workers_(workers),
        owners_(owners),
        status_(std::move(status)),
        of_blocks_(of_blocks) {}

  [[nodiscard]] boost::asio::awaitable<Result<History>> list(Caller caller, HistoryRequest request);

  // Returns the last window, or if there is none the last hour, with every process that the caller
  // may see, up to 10,000.
  [[nodiscard]] boost::asio::awaitable<Result<WindowShares>> last(Caller caller);

  // WindowStore::names_after() and removed_after(). Waits up to `patience` until there is one, as
  // long as `is_wanted` returns true.
  [[nodiscard]] boost::asio::awaitable<Result<WindowNames>> names_after(
      Caller caller, std::string after, std::function<bool()> is_wanted,
      std::chrono::milliseconds patience = kPatience);

  // The file of a window as the caller may see it. kNotFound: nothing of it.
  [[nodiscard]] boost::asio::awaitable<Result<std::string>> read_window(Caller caller,
                                                                        std::string name);

  // Where an export is written: the directory of the ResultStore that adopts it, and whose account
  // is charged. The samples take at most `max_memory_bytes`.
  struct ExportPlace {
    std::string directory;
    std::optional<uid_t> user;  // as that of StoredResult
    ResultAccount account;
    std::uint64_t max_memory_bytes = 0;
  };

  [[nodiscard]] boost::asio::awaitable<Result<StoredResult>> make_export(Caller caller,
                                                                         ExportRequest request,
                                                                         ExportPlace place);

  // Whether a user has an active request as an unprivileged caller.
  [[nodiscard]] bool is_busy_for(uid_t user) const { return busy_.contains(user); }

  // Makes active requests fail with kUnavailable after their current turn.
  void shut_down() { shutting_down_ = true; }

 private:
  [[nodiscard]] Result<RangeFiles> files_in(const TimeRange& range, PreferHours prefer) const;

  // Runs a job to its end in turns on the worker, which also destroys the job; at the shut-down the
  // io thread destroys one that has not ended.
  template <class Job>
  [[nodiscard]] boost::asio::awaitable<Result<typename Job::Value>> run(Caller caller,
                                                                        std::unique_ptr<Job> job);

  const WindowStore& windows_;
  ResultWorkers& workers_;
  UidOwners& owners_;
  Status status_;
  bool of_blocks_;
  std::set<uid_t> busy_;  // users
  bool shutting_down_ = false;
};

}  // namespace profd
