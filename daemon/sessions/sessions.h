// All sessions: started, listed, ended and stored, each within its caller's rights and limits.
//
// A session runs until it is stopped, its duration is over, its targets have ended, or its lease
// has expired. Then the worker encodes its data into the result store, where stop() finds them: so
// memory is bounded by what runs. When storing fails (a full disk) the data stay in memory, the
// next stop() tries again, and remove_result() drops them. On the io thread, except for the
// worker's part.

#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "collectors/host/uid_owners.h"
#include "daemon/history/history.h"
#include "daemon/service/caller.h"
#include "daemon/sessions/caller_limits.h"
#include "daemon/sessions/recording.h"
#include "daemon/storage/result_store.h"
#include "daemon/storage/result_workers.h"
#include "formats/api/control_api.h"
#include "formats/base/result.h"

namespace profd {

class Sessions {
 public:
  // All must outlive the sessions. The first recorder that records an event gets it.
  struct Parts {
    boost::asio::io_context& io;
    ResultStore& results;
    ResultWorkers& workers;
    WindowHistory& history;
    const SessionLimits& limits;
    UidOwners& owners;
    std::vector<Recorder*> recorders;
    WindowHistory* off_cpu_history = nullptr;  // of windows of blocks; null: there is none
  };

  explicit Sessions(Parts parts);
  Sessions(const Sessions&) = delete;
  Sessions& operator=(const Sessions&) = delete;

  // Returns the id when the session records. Coroutines take their arguments by value, since they
  // outlive the call.
  [[nodiscard]] boost::asio::awaitable<Result<std::string>> start(Caller caller,
                                                                  StartRequest request);

  // Renews the lease.
  [[nodiscard]] Result<SessionInfo> session(const Caller& caller, const std::string& id);
  [[nodiscard]] std::vector<SessionInfo> sessions(const Caller& caller) const;

  [[nodiscard]] boost::asio::awaitable<Result<ResultInfo>> stop(Caller caller, std::string id);
  [[nodiscard]] boost::asio::awaitable<Result<ResultInfo>> dump(Caller caller, std::string id);

  // The samples of a running session since its last take, or its start, as a profile.proto with
  // names; the session has them no more. kBusy: another take of it is under way. In takes.cc.
  [[nodiscard]] boost::asio::awaitable<Result<std::string>> take(Caller caller, std::string id);

  // A result like a dump, of kept windows. An unprivileged caller may have to wait until exports of
  // others end.
  [[nodiscard]] boost::asio::awaitable<Result<ResultInfo>> export_windows(Caller caller,
                                                                          ExportRequest request);

  [[nodiscard]] Result<OpenedFile> open_result_file(const Caller& caller, const std::string& result,
                                                    const std::string& path) const;
  // Removes a result, or the data of an ended session that could not be stored. kBusy: they are
  // being stored.
  Result<void> remove_result(const Caller& caller, const std::string& result);

  // An id that no session and no result has.
  [[nodiscard]] std::string unused_id() const;

  // Ends all sessions and stores them; no new one can start. `io` runs dry afterwards. False when
  // data are lost, since they could not be stored.
  [[nodiscard]] boost::asio::awaitable<bool> shut_down();

 private:
  struct Session;
  using SessionPtr = std::shared_ptr<Session>;
  using User = std::optional<uid_t>;  // none: a privileged one

  // Either a session whose data are not stored yet, or a result.
  struct Found {
    SessionPtr session;
    const StoredResult* stored = nullptr;
  };

  [[nodiscard]] User owner_of(const Session& session) const;
  // Whether the caller's limits have room for the session.
  [[nodiscard]] Result<void> check(const Caller& caller, const StartRequest& request) const;
  // authorize_target(). Unprivileged users take turns at it.
  boost::asio::awaitable<Result<void>> authorize(Caller caller, TargetRequest target);
  static boost::asio::awaitable<Result<void>> authorize_in_parts(Caller caller,
                                                                 TargetRequest target);
  [[nodiscard]] Result<Found> find(const Caller& caller, const std::string& id) const;
  [[nodiscard]] Result<const StoredResult*> find_stored(const Caller& caller,
                                                        const std::string& id) const;
  // What the caller, and with it the user whose subordinate uid it is, has.
  [[nodiscard]] Holdings held_by(uid_t uid) const;

  boost::asio::awaitable<Result<ResultInfo>> make_export(Caller caller, ExportRequest request);
  void begin_duration(const SessionPtr& session);
  void store_in_background(const SessionPtr& session);
  // On the worker of the caller who waits, so that root does not wait for the turns of users.
  boost::asio::awaitable<Result<ResultInfo>> store(SessionPtr session, User waiting);
  boost::asio::awaitable<Result<StoredResult>> write_final(SessionPtr session, User waiting);
  boost::asio::awaitable<Result<StoredResult>> write_dump(SessionPtr session, User waiting);
  boost::asio::awaitable<Result<StoredResult>> write(Measurement& measurement, StoredResult result,
                                                     User waiting);
  boost::asio::awaitable<Result<std::string>> take_part(SessionPtr session, User waiting);
  boost::asio::awaitable<void> release(std::shared_ptr<Recording> recording);

  boost::asio::awaitable<void> check_every_second();
  void end_if_unwanted(const SessionPtr& session);
  Result<void> discard(const SessionPtr& session);
  boost::asio::awaitable<void> drop(SessionPtr session);
  void expire();
  void delete_hidden();
  boost::asio::awaitable<void> delete_on_worker(std::vector<HiddenResult> files);

  Parts parts_;
  std::map<std::string, SessionPtr> sessions_;  // that run, or are not stored yet
  boost::asio::steady_timer second_;
  std::chrono::steady_clock::time_point names_trimmed_at_{};
  UserTurns authorization_turns_;
  UserTurns export_turns_;
  bool shutting_down_ = false;
};

}  // namespace profd
