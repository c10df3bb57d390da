// What callers ask of the windows that continuous mode keeps: which there are, who used the CPU in
// them, and exports of a range.
//
// Reading and merging is done on the store worker in short turns, so that the stop of a session
// never waits for more than one, whatever else is asked. A caller without rights has one request
// under way at a time. On the io thread.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "daemon/history/store.h"
#include "daemon/service/caller.h"
#include "daemon/storage/result_store.h"
#include "daemon/storage/store_worker.h"
#include "formats/api/history_api.h"
#include "formats/api/status_info.h"
#include "formats/base/result.h"

namespace profd {

class WindowHistory {
 public:
  // How long a request holds the worker before others have their turn; a step under way is ended.
  static constexpr std::chrono::milliseconds kTurn{10};

  // What continuous mode says of itself by now.
  using Status = std::function<StatusInfo::Continuous()>;

  // Both, and what `status` looks at, must outlive *this.
  WindowHistory(const WindowStore& windows, StoreWorker& worker, Status status)
      : windows_(windows), worker_(worker), status_(std::move(status)) {}

  [[nodiscard]] boost::asio::awaitable<Result<History>> list(Caller caller, HistoryRequest request);

  // The last window, with every process that the caller may see, up to a limit that no host meets.
  [[nodiscard]] boost::asio::awaitable<Result<WindowShares>> last(Caller caller);

  // Into `results_dir`; for the ResultStore there to adopt. At most `max_bytes` of samples are in
  // memory.
  [[nodiscard]] boost::asio::awaitable<Result<StoredResult>> make_export(Caller caller,
                                                                         ExportRequest request,
                                                                         std::string results_dir,
                                                                         std::uint64_t max_bytes);

  // Whether a caller without rights has a request under way.
  [[nodiscard]] bool is_busy_for(uid_t uid) const { return busy_.contains(uid); }

  // What is under way ends with its present turn, as kUnavailable.
  void shut_down() { shutting_down_ = true; }

 private:
  class Turn;

  [[nodiscard]] Result<std::vector<std::string>> names_in(const TimeRange& range) const;

  // Runs a job to its end, turn by turn. It goes on the worker, where that holds nobody up.
  template <class Job>
  [[nodiscard]] boost::asio::awaitable<Result<typename Job::Value>> run(Caller caller,
                                                                        std::unique_ptr<Job> job);

  const WindowStore& windows_;
  StoreWorker& worker_;
  Status status_;
  std::set<uid_t> busy_;
  bool shutting_down_ = false;
};

}  // namespace profd
