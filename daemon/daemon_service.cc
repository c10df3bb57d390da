#include "daemon/daemon_service.h"

#include <utility>

#include "collectors/bpf/loss.h"
#include "collectors/jit/stats.h"
#include "collectors/unwinding/stats.h"
#include "daemon/control/status.h"
#include "daemon/history/failure.h"
#include "daemon/samples/stack_end.h"

namespace profd {

using boost::asio::awaitable;

awaitable<Result<std::string>> DaemonService::start(Caller caller, StartRequest request) {
  return parts_.sessions->start(caller, std::move(request));
}

Result<SessionInfo> DaemonService::session(const Caller& caller, const std::string& id) {
  return parts_.sessions->session(caller, id);
}

std::vector<SessionInfo> DaemonService::sessions(const Caller& caller) {
  return parts_.sessions->sessions(caller);
}

awaitable<Result<ResultInfo>> DaemonService::stop(Caller caller, std::string id) {
  return parts_.sessions->stop(caller, std::move(id));
}

awaitable<Result<ResultInfo>> DaemonService::dump(Caller caller, std::string id) {
  return parts_.sessions->dump(caller, std::move(id));
}

awaitable<Result<ResultInfo>> DaemonService::export_windows(Caller caller, ExportRequest request) {
  return parts_.sessions->export_windows(caller, std::move(request));
}

awaitable<Result<History>> DaemonService::history(Caller caller, HistoryRequest request) {
  return parts_.history->list(caller, request);
}

awaitable<Result<WindowShares>> DaemonService::last_window(Caller caller) {
  return parts_.history->last(caller);
}

Result<OpenedFile> DaemonService::open_result_file(const Caller& caller, const std::string& result,
                                                   const std::string& path) {
  return parts_.sessions->open_result_file(caller, result, path);
}

Result<void> DaemonService::remove_result(const Caller& caller, const std::string& result) {
  return parts_.sessions->remove_result(caller, result);
}

StatusInfo DaemonService::status(const Caller& caller) {
  DaemonFacts facts;
  facts.uptime = std::chrono::steady_clock::now() - started_;
  facts.running_sessions = parts_.sample_recorder->running();
  facts.results_bytes = parts_.results->bytes();
  facts.worker_parser_restarts = parts_.worker->parser_restarts();
  facts.ledger = parts_.source->ledger();
  facts.unwinding = parts_.source->unwind_stats();
  facts.jit = parts_.naming->stats();
  facts.xray = describe_xray();
  facts.continuous = parts_.continuous->status();
  return describe_daemon(facts, parts_.aggregator.unwind_tally(), caller.privileged);
}

StatusInfo::Xray DaemonService::describe_xray() const {
  StatusInfo::Xray xray;
  xray.apps = parts_.xray_apps->size();
  xray.apps_refused = parts_.xray_apps->refused();
  xray.sessions = parts_.xray_recorder->running();
  xray.failed = parts_.xray_recorder->failed();
  xray.ended = parts_.xray_recorder->ended();
  if (parts_.traces) {
    xray.traces = parts_.traces->counts().logs;
    xray.traces_refused = parts_.traces->counts().refused;
    xray.traces_missed = parts_.traces->counts().missed;
  }
  return xray;
}

StatusReasons DaemonService::status_reasons() {
  StatusReasons reasons;
  for (std::size_t i = 0; i < kLossCount; ++i) {
    reasons.lost.push_back(loss_name(static_cast<Loss>(i)));
  }
  reasons.incomplete.push_back(incomplete_reason(StackClass::kCompat, 0));
  for (unsigned end = 0; end < PROFD_END_COUNT; ++end) {
    // A deferred stack gets its end before it is counted.
    if (reached_root(end) || end == PROFD_END_DEFERRED) continue;
    reasons.incomplete.push_back(incomplete_reason(StackClass::kUser, end));
  }
  for (std::size_t i = 0; i < kTableRefusalCount; ++i) {
    reasons.tables_refused.push_back(name_of(static_cast<TableRefusal>(i)));
  }
  for (std::size_t i = 0; i < kJitRefusalCount; ++i) {
    reasons.jit_refused.push_back(name_of(static_cast<JitRefusal>(i)));
  }
  for (std::size_t i = 0; i < kWindowFailureCount; ++i) {
    reasons.windows_failed.push_back(name_of(static_cast<WindowFailure>(i)));
  }
  return reasons;
}

Result<ConfigInfo> DaemonService::configuration(const Caller& caller) {
  if (caller.privileged) return parts_.config.describe();
  return fail(ErrorCode::kPermissionDenied, "the configuration is for root and the group profd",
              "sudo profctl config");
}

}  // namespace profd
