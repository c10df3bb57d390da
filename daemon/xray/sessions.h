// Sessions that record the calls of an instrumented app (event "xray").
//
// Each has a process of its own that follows the app (collectors/xray/follower.h) and holds all
// that comes of it; here is only who asked for it, its counts and its end. A session ends when it
// is stopped, its time is over, nobody asks for it any more, or the app is gone. Whatever goes
// wrong is the session's own end, with a reason that stop() gives. On the io thread, but for the
// worker's part.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include "collectors/files/timed_opener.h"
#include "daemon/service/caller.h"
#include "daemon/storage/result_store.h"
#include "daemon/storage/store_worker.h"
#include "daemon/xray/apps.h"
#include "daemon/xray/memory.h"
#include "daemon/xray/session.h"
#include "formats/api/session_summary.h"

namespace profd {

inline constexpr const char* kXrayEvent = "xray";

class XraySessions {
 public:
  // Where results go, and what else is shared with sessions of samples; all outlive *this.
  struct Parts {
    boost::asio::io_context& io;
    ResultStore& store;
    StoreWorker& worker;
  };
  XraySessions(const Parts& parts, std::unique_ptr<XrayApps> apps);
  XraySessions(const XraySessions&) = delete;
  XraySessions& operator=(const XraySessions&) = delete;

  // The caller may do so, says whoever calls. `id` is unused. Whether the app takes part shows in
  // under_way().
  Result<void> start(const Caller& caller, const StartRequest& request, const std::string& id);

  // Returns when the app's functions are patched, or can't be.
  boost::asio::awaitable<Result<void>> under_way(std::string id);

  // Null: none of that id that isn't stored.
  [[nodiscard]] const XraySession* find(const std::string& id) const;
  [[nodiscard]] std::vector<const XraySession*> all() const;
  void renew_lease(const std::string& id);

  boost::asio::awaitable<Result<ResultInfo>> stop(std::string id);
  boost::asio::awaitable<Result<ResultInfo>> dump(std::string id);

  // Once a second.
  void look_after();

  // Ends and stores all. False when one could not be stored.
  boost::asio::awaitable<bool> shut_down();

  [[nodiscard]] const XrayApps& apps() const { return *apps_; }
  [[nodiscard]] std::size_t running() const;
  [[nodiscard]] std::uint64_t failed() const { return failed_; }
  // Sessions that ended before anybody asked, by the name of the reason (xray::DetachReason).
  [[nodiscard]] const CountsByReason& ended() const { return ended_; }

 private:
  using SessionPtr = std::shared_ptr<XraySession>;

  [[nodiscard]] XrayHoldings held_by(uid_t uid) const;
  boost::asio::awaitable<void> follow(SessionPtr session);
  void take(const SessionPtr& session, xray::LiveNews news);
  void note_end(const SessionPtr& session, xray::DetachReason end, const std::string& why);
  void fail_session(const SessionPtr& session, xray::DetachReason reason, Error error);
  void finish(const SessionPtr& session);
  void finish_and_store(const SessionPtr& session);
  void end(const SessionPtr& session);
  boost::asio::awaitable<Result<ResultInfo>> store(SessionPtr session);
  boost::asio::awaitable<Result<StoredResult>> write(XrayMeasurement measurement,
                                                     StoredResult result);
  void reap();

  Parts parts_;
  std::unique_ptr<XrayApps> apps_;
  TimedOpener opener_;
  std::map<std::string, SessionPtr> sessions_;  // running, or ended and not yet stored
  std::vector<pid_t> to_reap_;
  std::uint64_t failed_ = 0;
  CountsByReason ended_;
};

}  // namespace profd
