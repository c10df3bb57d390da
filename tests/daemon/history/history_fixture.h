// A history of fabricated windows, for the tests of lists and exports.

#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>

#include "daemon/history/history.h"
#include "daemon/history/store.h"
#include "daemon/storage/store_worker.h"
#include "formats/profile/gperftools_reader.h"
#include "tests/daemon/callers.h"
#include "tests/daemon/history/fabricated_windows.h"
#include "tests/daemon/local_parser.h"
#include "tests/daemon/storage/unpacked_result.h"

namespace profd::test {

// 2026-01-02 14:05:00 UTC
inline constexpr std::uint64_t kStartMs = 1'767'362'700'000;
inline constexpr std::uint64_t kMinuteMs = 60'000;
inline constexpr std::uint64_t kNoHistoryLimit = std::uint64_t{1} << 40;

inline std::chrono::system_clock::time_point minute(int number) {
  return std::chrono::system_clock::time_point(std::chrono::milliseconds(kStartMs)) +
         number * std::chrono::minutes(1);
}

class WindowHistoryTest : public testing::Test {
 protected:
  static constexpr std::chrono::seconds kHang{60};  // whatever takes longer never comes

  void SetUp() override { std::filesystem::create_directories(results()); }

  [[nodiscard]] std::string results() const { return windows_.state() / "results"; }

  // A process that was `hot` for so many samples, called by `warm`.
  [[nodiscard]] static NamedProcess hot(std::uint32_t pid, const std::string& comm,
                                        std::uint64_t samples) {
    NamedProcess process;
    process.pid = pid;
    process.comm = comm;
    process.stacks = {{.functions = {"hot", "warm"}, .samples = samples}};
    return process;
  }

  void open(std::unique_ptr<Parser> parser = std::make_unique<LocalParser>()) {
    store_.emplace(windows_.open());
    workers_.emplace(io_, std::move(parser), std::make_unique<LocalParser>());
    history_.emplace(*store_, *workers_, owners_, [this] { return status_; });
  }

  template <class T>
  T run(boost::asio::awaitable<T> operation) {
    std::optional<T> value;
    boost::asio::co_spawn(io_, std::move(operation), [&](const std::exception_ptr& problem, T got) {
      if (problem) std::rethrow_exception(problem);
      value.emplace(std::move(got));
    });
    io_.restart();
    io_.run_for(kHang);
    return std::move(value.value());
  }

  Result<StoredResult> export_as(const Caller& caller, const ExportRequest& request,
                                 std::uint64_t max_bytes = kNoHistoryLimit) {
    if (!history_) open();
    return run(history_->make_export(caller, request, place(max_bytes)));
  }

  [[nodiscard]] WindowHistory::ExportPlace place(std::uint64_t max_bytes) const {
    return {.directory = results(), .user = {}, .account = {}, .max_memory_bytes = max_bytes};
  }

  Result<StoredResult> export_all(const Caller& caller) { return export_as(caller, {}); }

  [[nodiscard]] std::filesystem::path directory_of(const StoredResult& result) const {
    const std::string& id = result.info.result;
    test::unpack(std::filesystem::path(results()) / id, windows_.state() / "unpacked" / id);
    return windows_.state() / "unpacked" / id;
  }

  [[nodiscard]] Profile read_profile(const StoredResult& result, const std::string& name) const {
    return decode_gperftools(read_file(directory_of(result) / name)).value();
  }

  boost::asio::io_context io_;
  FabricatedWindows windows_;
  std::optional<WindowStore> store_;
  std::optional<ResultWorkers> workers_;
  UidOwners owners_{windows_.state() / "subuid", windows_.state() / "passwd",
                    std::chrono::seconds(0)};
  StatusInfo::Continuous status_;
  std::optional<WindowHistory> history_;
};

}  // namespace profd::test
