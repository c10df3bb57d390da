// The Service of the control server over the daemon's parts.

#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "daemon/control/service.h"
#include "daemon/daemon_parts.h"

namespace profd {

class DaemonService final : public Service {
 public:
  // `parts` must outlive the service.
  explicit DaemonService(DaemonParts& parts) : parts_(parts) {}

  boost::asio::awaitable<Result<std::string>> start(Caller caller, StartRequest request) override;
  Result<SessionInfo> session(const Caller& caller, const std::string& id) override;
  std::vector<SessionInfo> sessions(const Caller& caller) override;
  boost::asio::awaitable<Result<ResultInfo>> stop(Caller caller, std::string id) override;
  boost::asio::awaitable<Result<ResultInfo>> dump(Caller caller, std::string id) override;
  boost::asio::awaitable<Result<ResultInfo>> export_windows(Caller caller,
                                                            ExportRequest request) override;
  boost::asio::awaitable<Result<History>> history(Caller caller, HistoryRequest request) override;
  boost::asio::awaitable<Result<WindowShares>> last_window(Caller caller) override;
  Result<OpenedFile> open_result_file(const Caller& caller, const std::string& result,
                                      const std::string& path) override;
  Result<void> remove_result(const Caller& caller, const std::string& result) override;
  StatusInfo status(const Caller& caller) override;
  StatusReasons status_reasons() override;
  Result<ConfigInfo> configuration(const Caller& caller) override;

 private:
  [[nodiscard]] StatusInfo::Xray describe_xray() const;

  DaemonParts& parts_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

}  // namespace profd
