// profd's verbs, as profctl sees them: typed requests and checked answers over the control socket.
//
// What the daemon says is checked like any input: ids and paths for their characters, files for
// their lengths. Errors are the daemon's own (its code, message and hint) or HttpClient's.

#pragma once

#include <string>
#include <vector>

#include "ctl/client/http_client.h"
#include "formats/api/config_info.h"
#include "formats/api/control_api.h"
#include "formats/api/history_api.h"
#include "formats/api/status_info.h"
#include "formats/base/result.h"

namespace profd {

class Client {
 public:
  struct Limits {
    std::chrono::milliseconds answer{10'000};
    std::chrono::milliseconds encode{600'000};  // for what reads or encodes many profiles first
    std::chrono::milliseconds stall{30'000};
  };

  explicit Client(std::string socket);
  Client(std::string socket, const Limits& limits);

  Result<StatusInfo> status();
  Result<ConfigInfo> configuration();
  Result<std::vector<SessionInfo>> sessions();
  Result<SessionInfo> session(const std::string& id);

  // The id of the new session.
  Result<std::string> start(const StartRequest& request);

  // Every path of the result is valid (is_valid_result_path) and there once.
  Result<ResultInfo> stop(const std::string& id);
  Result<ResultInfo> dump(const std::string& id);

  // Of the windows that continuous mode keeps. The result is as stop()'s.
  Result<ResultInfo> export_windows(const ExportRequest& request);
  Result<History> history(const HistoryRequest& request);
  Result<WindowShares> last_window();

  // One of the result's files, of just the length that the result told.
  Result<std::string> fetch(const std::string& result, const ResultFile& file);
  Result<void> remove(const std::string& result);

 private:
  using Verb = boost::beast::http::verb;

  // The body of an answer of 2xx.
  Result<std::string> ask(Verb method, const std::string& target, const std::string& body,
                          const HttpClient::Limits& limits);
  Result<ResultInfo> finish(const std::string& id, const std::string& verb);
  Result<ResultInfo> ask_for_result(const std::string& target, const std::string& body);
  [[nodiscard]] HttpClient::Limits patient() const;
  [[nodiscard]] HttpClient::Limits usual() const;

  HttpClient http_;
  Limits limits_;
};

}  // namespace profd
