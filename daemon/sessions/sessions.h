// All sessions: started, listed, ended and stored, each within its caller's rights and limits.
//
// A session runs until it is stopped, its duration is over, its targets are gone, or nobody has
// asked for it during its lease. Then it leaves the kernel at once, and the worker encodes it into
// the store, where `stop` finds it: memory is bounded by what runs. When storing fails (a full
// disk) its samples stay in memory, and the next `stop` tries again. On the io thread, but for the
// worker's part.

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "daemon/control/service.h"
#include "daemon/history/continuous.h"
#include "daemon/history/history.h"
#include "daemon/samples/aggregator.h"
#include "daemon/samples/drain_loop.h"
#include "daemon/samples/jit_naming.h"
#include "daemon/service/caller.h"
#include "daemon/service/running_config.h"
#include "daemon/sessions/caller_limits.h"
#include "daemon/sessions/cgroup_tree.h"
#include "daemon/sessions/sample_source.h"
#include "daemon/sessions/session.h"
#include "daemon/storage/result_store.h"
#include "daemon/storage/store_worker.h"
#include "daemon/xray/directory.h"
#include "daemon/xray/sessions.h"

namespace profd {

class Sessions final : public Service {
 public:
  // `io`, `aggregator` (the sink of `source`) and `source` must outlive *this. `parser`, not null,
  // is for the files behind samples.
  Sessions(boost::asio::io_context& io, SampleSource& source, Aggregator& aggregator,
           ResultStore store, std::unique_ptr<Parser> parser, const SessionLimits& limits = {});

  Result<std::string> start(const Caller& caller, const StartRequest& request) override;
  boost::asio::awaitable<Result<void>> under_way(std::string id) override;
  Result<SessionInfo> session(const Caller& caller, const std::string& id) override;
  std::vector<SessionInfo> sessions(const Caller& caller) override;
  boost::asio::awaitable<Result<ResultInfo>> stop(Caller caller, std::string id) override;
  boost::asio::awaitable<Result<ResultInfo>> dump(Caller caller, std::string id) override;
  Result<OpenedFile> open_result_file(const Caller& caller, const std::string& result,
                                      const std::string& path) override;
  Result<void> remove_result(const Caller& caller, const std::string& result) override;
  StatusInfo status(const Caller& caller) override;
  boost::asio::awaitable<Result<ResultInfo>> export_windows(Caller caller,
                                                            ExportRequest request) override;
  boost::asio::awaitable<Result<History>> history(Caller caller, HistoryRequest request) override;
  boost::asio::awaitable<Result<WindowShares>> last_window(Caller caller) override;

  // Answers of these windows from now on; `windows`, and what `status` looks at, must outlive
  // *this.
  void show_history(const WindowStore& windows, WindowHistory::Status status);

  // Where samples in code made at run time get their functions; must outlive *this.
  void name_jit_code_by(JitNaming& naming);

  // From now on sessions of event "xray" record the calls of these apps.
  void record_calls_of(std::unique_ptr<XrayApps> apps);

  // Traces that are left in this directory become results.
  Result<void> take_traces_from(const std::string& directory);

  // Requests for the history that are under way end soon, without an answer.
  void end_history_requests() {
    if (history_) history_->shut_down();
  }
  Result<ConfigInfo> configuration(const Caller& caller) override;

  // Takes over what concerns sessions: those that start from now on. Called again after a reload;
  // `config` must outlive *this.
  void configure(const ConfigInForce& config);

  // Life signs of what sessions are made by (watchdog.h).
  [[nodiscard]] std::optional<std::uint64_t> drains() const { return drain_loop_.drains(); }
  // Returns when the worker has done what it was given before.
  [[nodiscard]] boost::asio::awaitable<void> worker_catches_up() {
    auto nothing = [](Parser&) -> Result<void> { return {}; };
    co_await worker_.run(std::move(nothing));
  }

  // The whole host's windows, from the next configure() on as that says.
  void keep_windows(WindowStore store, Continuous::StartParser start_parser);
  // Null: none are kept.
  [[nodiscard]] const WindowStore* windows() const {
    return continuous_ ? &continuous_->windows() : nullptr;
  }

  // Ends all sessions and stores them; no new one can start. `io` runs dry afterwards. False when
  // samples are lost, since they could not be stored.
  boost::asio::awaitable<bool> shut_down();

 private:
  using SessionPtr = std::shared_ptr<Session>;

  [[nodiscard]] StatusInfo::Xray describe_xray() const;
  Result<std::string> start_xray(const Caller& caller, const StartRequest& request);
  Result<bool> is_xray(const Caller& caller, const std::string& id) const;
  Result<SessionPtr> find(const Caller& caller, const std::string& id) const;
  Result<const StoredResult*> find_stored(const Caller& caller, const std::string& id) const;
  [[nodiscard]] std::vector<SessionInfo> visible_to(const Caller& caller) const;
  [[nodiscard]] Holdings held_by(uid_t uid) const;
  [[nodiscard]] std::string unused_id() const;
  [[nodiscard]] std::size_t running() const;
  [[nodiscard]] SessionInfo describe(const Session& session) const;

  SessionPtr add_session(const Caller& caller, const StartRequest& request, const EventSpec& event,
                         SessionSlot slot);
  Result<SessionSlot> start_sampling(const EventSpec& event, const Target& target);
  void set_pace();
  void end(Session& session);
  void end_and_store(const SessionPtr& session);
  Result<SessionSnapshot> copy_samples(const Session& session);
  boost::asio::awaitable<void> resolve_jit_code(SessionSnapshot& snapshot);
  void let_go_of(const Session& session);
  void log_unkept_mappings(const Session& session);

  boost::asio::awaitable<Result<StoredResult>> write(std::optional<SessionSnapshot>& snapshot,
                                                     StoredResult result);
  boost::asio::awaitable<Result<ResultInfo>> store(SessionPtr session);
  boost::asio::awaitable<void> look_after();
  void end_those_without_targets();
  void end_those_without_client();
  void expire();

  boost::asio::io_context& io_;
  SampleSource& source_;
  Aggregator& aggregator_;
  ResultStore store_;
  SessionLimits limits_;
  CgroupTree cgroups_;
  const ConfigInForce* config_ = nullptr;  // null: there is none to show
  DrainLoop drain_loop_;
  StoreWorker worker_;
  std::optional<WindowHistory> history_;
  std::optional<Continuous> continuous_;
  std::unique_ptr<XraySessions> xray_;  // null: no app can come
  std::unique_ptr<XrayDirectory> traces_;
  JitNaming* naming_ = nullptr;
  std::map<std::string, SessionPtr> sessions_;  // running, or ended and not yet stored
  boost::asio::steady_timer second_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  bool shutting_down_ = false;
};

}  // namespace profd
