// What the control server asks of the rest of the daemon: sessions, their results, and the state of
// the whole.
//
// Every verb takes the caller, whose rights are decided here and nowhere else. Called on the io
// thread only.

#pragma once

#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "daemon/service/caller.h"
#include "daemon/storage/result_store.h"
#include "formats/api/config_info.h"
#include "formats/api/control_api.h"
#include "formats/api/history_api.h"
#include "formats/api/status_info.h"
#include "formats/base/result.h"

namespace profd {

class Service {
 public:
  Service() = default;
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  virtual ~Service() = default;

  virtual Result<std::string> start(const Caller& caller, const StartRequest& request) = 0;
  // Returns when what start() set out to do goes on, or can't: then there is no such session.
  virtual boost::asio::awaitable<Result<void>> under_way(std::string /*id*/) {
    co_return Result<void>();
  }

  virtual Result<SessionInfo> session(const Caller& caller, const std::string& id) = 0;
  virtual std::vector<SessionInfo> sessions(const Caller& caller) = 0;

  // Encoding runs on the worker; the io thread goes on meanwhile. `id` by value: the coroutine
  // outlives the call.
  virtual boost::asio::awaitable<Result<ResultInfo>> stop(Caller caller, std::string id) = 0;
  virtual boost::asio::awaitable<Result<ResultInfo>> dump(Caller caller, std::string id) = 0;

  // Of the windows that continuous mode keeps; done on the worker too.
  virtual boost::asio::awaitable<Result<ResultInfo>> export_windows(Caller caller,
                                                                    ExportRequest request) = 0;
  virtual boost::asio::awaitable<Result<History>> history(Caller caller,
                                                          HistoryRequest request) = 0;
  virtual boost::asio::awaitable<Result<WindowShares>> last_window(Caller caller) = 0;

  virtual Result<OpenedFile> open_result_file(const Caller& caller, const std::string& result,
                                              const std::string& path) = 0;
  virtual Result<void> remove_result(const Caller& caller, const std::string& result) = 0;

  virtual StatusInfo status(const Caller& caller) = 0;

  // Trusted callers only, since it has paths of the host.
  virtual Result<ConfigInfo> configuration(const Caller& caller) = 0;
};

}  // namespace profd
