// The requests of the control socket (docs/api.md), typed, with checked answers.
//
// The answers are checked like any input: ids and paths for their characters, files for their
// lengths. An error is the daemon's own, with its code, message and hint, or HttpClient's.

#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "ctl/client/http_client.h"
#include "formats/api/config_info.h"
#include "formats/api/control_api.h"
#include "formats/api/history_api.h"
#include "formats/api/status_info.h"
#include "formats/base/result.h"

namespace profd {

// kNotFound for a text that is no id: the daemon has no such session, and no path may be made of
// it.
[[nodiscard]] Result<void> check_session_id(const std::string& id);

class Client {
 public:
  struct Limits {
    std::chrono::milliseconds answer{10'000};
    std::chrono::milliseconds encode{600'000};  // for requests that read or encode many profiles
    std::chrono::milliseconds stall{30'000};
    std::chrono::milliseconds window{90'000};  // the daemon waits for one for 60 s
    int stop_fd = -1;  // of requests for windows, as that of HttpClient::Limits
  };

  explicit Client(std::string socket) : Client(std::move(socket), Limits()) {}
  // `admin_socket` as `preferred` of HttpClient.
  Client(std::string socket, const Limits& limits, std::string admin_socket = {})
      : socket_(socket),
        admin_socket_(admin_socket),
        http_(std::move(socket), std::move(admin_socket)),
        limits_(limits) {}

  // Of the same daemon, with a connection of its own: for another thread.
  [[nodiscard]] Client another(const Limits& limits) const {
    return {socket_, limits, admin_socket_};
  }

  Result<StatusInfo> status();
  // In the text format of Prometheus.
  Result<std::string> metrics();
  Result<ConfigInfo> configuration();
  Result<std::vector<SessionInfo>> sessions();
  Result<SessionInfo> session(const std::string& id);

  // The id of the new session.
  Result<std::string> start(const StartRequest& request);

  // Every path of the result is valid (is_valid_result_path) and unique.
  Result<ResultInfo> stop(const std::string& id);
  Result<ResultInfo> dump(const std::string& id);
  // The samples since the last take, or the start, as a profile.proto (.pb.gz); the session has
  // them no more.
  Result<std::string> take(const std::string& id);
  Result<ResultInfo> export_windows(const ExportRequest& request);

  Result<History> history(const HistoryRequest& request);
  Result<WindowShares> last_window();
  // Those that were written after `name`, or all after "", and those of them that were removed.
  // Waits until there is one; may be empty.
  Result<WindowNames> windows_after(const std::string& name);
  // A window's file, a profile.proto (.pb.gz).
  Result<std::string> window(const std::string& name);

  // A file of the result, with exactly the length that the result states.
  Result<std::string> fetch(const std::string& result, const ResultFile& file);
  Result<void> remove(const std::string& result);

 private:
  // The body of an answer with a status of 2xx.
  Result<std::string> ask(const std::string& method, const std::string& target,
                          const std::string& body, const HttpClient::Limits& limits);

  // Parses that body.
  template <class T>
  Result<T> ask_for(const std::string& method, const std::string& target, const std::string& body,
                    Result<T> (*parse)(std::string_view), std::chrono::milliseconds answer_limit);
  Result<ResultInfo> ask_for_result(const std::string& target, const std::string& body);

  std::string socket_;
  std::string admin_socket_;
  HttpClient http_;
  Limits limits_;
};

}  // namespace profd
