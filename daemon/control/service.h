// What the control server offers over HTTP: sessions, their results, the history, and the daemon's
// state.
//
// Every function takes the caller and decides what it may do. Called on the io thread alone.

#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "daemon/control/metrics.h"
#include "daemon/service/caller.h"
#include "daemon/storage/result_store.h"
#include "formats/api/config_info.h"
#include "formats/api/control_api.h"
#include "formats/api/history_api.h"
#include "formats/api/status_info.h"
#include "formats/base/result.h"

namespace profd {

// Whether the client still waits for its answer, and the server for the client. What waits for long
// asks it several times a second.
using IsWanted = std::function<bool()>;

class Service {
 public:
  Service() = default;
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  virtual ~Service() = default;

  // Coroutines take their arguments by value, since they outlive the call. start() returns the id
  // of a session that records.
  virtual boost::asio::awaitable<Result<std::string>> start(Caller caller,
                                                            StartRequest request) = 0;
  virtual Result<SessionInfo> session(const Caller& caller, const std::string& id) = 0;
  virtual std::vector<SessionInfo> sessions(const Caller& caller) = 0;
  virtual boost::asio::awaitable<Result<ResultInfo>> stop(Caller caller, std::string id) = 0;
  virtual boost::asio::awaitable<Result<ResultInfo>> dump(Caller caller, std::string id) = 0;
  // A profile.proto with names.
  virtual boost::asio::awaitable<Result<std::string>> take(Caller caller, std::string id) = 0;

  // Of the windows that continuous mode keeps.
  virtual boost::asio::awaitable<Result<ResultInfo>> export_windows(Caller caller,
                                                                    ExportRequest request) = 0;
  // The JSON of what these three return, and of what the two below do.
  virtual boost::asio::awaitable<Result<std::string>> encode(Caller caller, ResultInfo result) = 0;
  virtual boost::asio::awaitable<Result<std::string>> encode(Caller caller, History history) = 0;
  virtual boost::asio::awaitable<Result<std::string>> encode(Caller caller,
                                                             WindowShares window) = 0;

  virtual boost::asio::awaitable<Result<History>> history(Caller caller,
                                                          HistoryRequest request) = 0;
  virtual boost::asio::awaitable<Result<WindowShares>> last_window(Caller caller) = 0;
  // The names after `after`, oldest first, and those of removed windows; waits until there is one,
  // as long as `is_wanted`.
  virtual boost::asio::awaitable<Result<WindowNames>> windows_after(Caller caller,
                                                                    std::string after,
                                                                    IsWanted is_wanted) = 0;
  // The part of a window's file that the caller may see.
  virtual boost::asio::awaitable<Result<std::string>> window_file(Caller caller,
                                                                  std::string window) = 0;

  virtual Result<OpenedFile> open_result_file(const Caller& caller, const std::string& result,
                                              const std::string& path) = 0;
  // Also removes the data of an ended session that could not be stored.
  virtual Result<void> remove_result(const Caller& caller, const std::string& result) = 0;

  // What the server refuses a caller, by reason (collectors/host/user_refusals.h).
  virtual void count_refusal(const Caller& caller, std::string_view reason) = 0;

  // The same for all unprivileged callers.
  virtual StatusInfo status(const Caller& caller) = 0;
  virtual StatusReasons status_reasons() = 0;

  // For privileged callers, since it shows paths of the host.
  virtual Result<ConfigInfo> configuration(const Caller& caller) = 0;
};

}  // namespace profd
