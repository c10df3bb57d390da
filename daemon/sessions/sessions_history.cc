// What Sessions, as the Service, answers of continuous mode's windows. Exports are results like
// dumps: they count against the same limits and go the same way.

#include <algorithm>
#include <utility>

#include <spdlog/spdlog.h>

#include "daemon/sessions/sessions.h"
#include "formats/base/log_text.h"

namespace profd {
namespace {

Error no_history() {
  return fail(ErrorCode::kUnavailable, "continuous mode is not ready yet", "try again");
}

}  // namespace

void Sessions::show_history(const WindowStore& windows, WindowHistory::Status status) {
  history_.emplace(windows, worker_, std::move(status));
}

boost::asio::awaitable<Result<ResultInfo>> Sessions::export_windows(Caller caller,
                                                                    ExportRequest request) {
  if (!history_) co_return no_history();
  std::uint64_t max_bytes = limits_.session_max_bytes;
  if (!caller.privileged) {
    const Holdings held = held_by(caller.uid);
    if (Result<void> fits = check_dump(limits_, held, 0); !fits) co_return fits.error();
    max_bytes =
        limits_.unprivileged_max_bytes - std::min(held.bytes, limits_.unprivileged_max_bytes);
  }
  auto operation = history_->make_export(caller, std::move(request), store_.directory(), max_bytes);
  Result<StoredResult> stored = co_await std::move(operation);
  if (!stored) co_return stored.error();
  const TargetRequest& target = stored->session.target;
  spdlog::info("history exported by uid {}: {}, {} samples", caller.uid,
               target.empty() ? "all" : log_text(profd::describe(target)),
               stored->info.summary.ledger.written);
  ResultInfo info = stored->info;
  store_.adopt(std::move(*stored));
  co_return info;
}

boost::asio::awaitable<Result<History>> Sessions::history(Caller caller, HistoryRequest request) {
  if (!history_) co_return no_history();
  auto operation = history_->list(caller, request);
  co_return co_await std::move(operation);
}

boost::asio::awaitable<Result<WindowShares>> Sessions::last_window(Caller caller) {
  if (!history_) co_return no_history();
  auto operation = history_->last(caller);
  co_return co_await std::move(operation);
}

}  // namespace profd
