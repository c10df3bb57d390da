// A Service in memory that does as the test says, to test either end of the control socket alone.

#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/control/service.h"

namespace profd {

class FakeService : public Service {
 public:
  std::vector<StartRequest> started;
  std::vector<Caller> callers;
  std::vector<std::string> calls;     // "stop 5f2c01ab"
  std::vector<std::string> refusals;  // "1000 connections.refused"
  SessionInfo info;                   // what every session looks like
  ResultInfo result;                  // what stop and dump give
  std::map<std::string, std::string> files;
  // Of a result: /proc/version, of which the page cache has nothing.
  static constexpr std::string_view kUncachedFile = "uncached";
  std::uint64_t uncached_bytes = 0;
  std::vector<ExportRequest> exported;
  std::vector<HistoryRequest> asked;
  History windows;  // what history gives
  StatusInfo state;
  ConfigInfo config;
  std::optional<Error> error;                                     // given instead, when set
  std::function<void()> on_call;                                  // before anything else
  std::function<void(SessionInfo&)> on_session;                   // changes what session() gives
  std::function<Result<std::string>()> on_take;                   // what take gives
  std::function<boost::asio::awaitable<void>()> before_result;    // awaited by stop and dump
  std::function<boost::asio::awaitable<void>(IsWanted)> on_wait;  // awaited by windows_after

  boost::asio::awaitable<Result<std::string>> start(Caller caller, StartRequest request) override {
    note(caller, "start");
    if (error) co_return *error;
    started.push_back(std::move(request));
    co_return info.session;
  }

  Result<SessionInfo> session(const Caller& caller, const std::string& id) override {
    note(caller, "session " + id);
    if (error) return *error;
    if (id != info.session) return unknown(id);
    if (on_session) on_session(info);
    return info;
  }

  std::vector<SessionInfo> sessions(const Caller& caller) override {
    note(caller, "sessions");
    return {info};
  }

  boost::asio::awaitable<Result<ResultInfo>> stop(Caller caller, std::string id) override {
    note(caller, "stop " + id);
    if (before_result) co_await before_result();
    co_return give(id);
  }

  boost::asio::awaitable<Result<ResultInfo>> dump(Caller caller, std::string id) override {
    note(caller, "dump " + id);
    if (before_result) co_await before_result();
    co_return give(id);
  }

  boost::asio::awaitable<Result<std::string>> take(Caller caller, std::string id) override {
    note(caller, "take " + id);
    if (error) co_return *error;
    if (id != info.session) co_return unknown(id);
    co_return on_take ? on_take() : Result<std::string>(std::string());
  }

  boost::asio::awaitable<Result<ResultInfo>> export_windows(Caller caller,
                                                            ExportRequest request) override {
    note(caller, "export");
    exported.push_back(std::move(request));
    if (error) co_return *error;
    co_return result;
  }

  boost::asio::awaitable<Result<std::string>> encode(Caller, ResultInfo encoded) override {
    co_return to_json(encoded);
  }
  boost::asio::awaitable<Result<std::string>> encode(Caller, History encoded) override {
    co_return to_json(encoded);
  }
  boost::asio::awaitable<Result<std::string>> encode(Caller, WindowShares encoded) override {
    co_return to_json(encoded);
  }

  boost::asio::awaitable<Result<History>> history(Caller caller, HistoryRequest request) override {
    note(caller, "history");
    asked.push_back(request);
    if (error) co_return *error;
    co_return windows;
  }

  boost::asio::awaitable<Result<WindowNames>> windows_after(Caller, std::string after,
                                                            IsWanted is_wanted) override {
    if (on_wait) co_await on_wait(is_wanted);
    co_return WindowNames{.windows = {after + "-next"}};
  }
  boost::asio::awaitable<Result<std::string>> window_file(Caller, std::string window) override {
    co_return "file of " + window;
  }
  boost::asio::awaitable<Result<WindowShares>> last_window(Caller caller) override {
    note(caller, "last window");
    if (error) co_return *error;
    co_return windows.windows.at(0);
  }

  Result<OpenedFile> open_result_file(const Caller& caller, const std::string& id,
                                      const std::string& path) override {
    note(caller, "open " + id + " " + path);
    if (path == kUncachedFile) {
      return OpenedFile{.fd = UniqueFd(::open("/proc/version", O_RDONLY | O_CLOEXEC)),
                        .offset = 0,
                        .bytes = uncached_bytes};
    }
    const auto file = files.find(path);
    if (id != result.result || file == files.end()) return unknown(path);
    constexpr off_t kOffset = 5;  // of the file within that of the result
    OpenedFile opened{.fd = UniqueFd(::memfd_create("result", MFD_CLOEXEC)),
                      .offset = kOffset,
                      .bytes = file->second.size()};
    const ssize_t written =
        ::pwrite(opened.fd.get(), file->second.data(), file->second.size(), kOffset);
    if (written != static_cast<ssize_t>(file->second.size())) return fail_errno("memfd");
    return opened;
  }

  Result<void> remove_result(const Caller& caller, const std::string& id) override {
    note(caller, "remove " + id);
    if (id != result.result) return unknown(id);
    return {};
  }

  StatusInfo status(const Caller& caller) override {
    note(caller, "status");
    return state;
  }

  void count_refusal(const Caller& caller, std::string_view reason) override {
    refusals.push_back(std::to_string(caller.uid) + " " + std::string(reason));
  }

  StatusReasons status_reasons() override { return {}; }

  Result<ConfigInfo> configuration(const Caller& caller) override {
    note(caller, "configuration");
    if (error) return *error;
    return config;
  }

 private:
  static Error unknown(const std::string& what) {
    return fail(ErrorCode::kNotFound, "there is no " + what);
  }

  void note(const Caller& caller, std::string call) {
    callers.push_back(caller);
    calls.push_back(std::move(call));
    if (on_call) on_call();
  }

  Result<ResultInfo> give(const std::string& id) const {
    if (error) return *error;
    if (id != info.session) return unknown(id);
    return result;
  }
};

}  // namespace profd
