// Sessions over a fake source of samples.

#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>

#include "daemon/history/history.h"
#include "daemon/history/store.h"
#include "daemon/sessions/sample_recorder.h"
#include "daemon/sessions/sessions.h"
#include "tests/daemon/history/fabricated_windows.h"
#include "tests/daemon/local_parser.h"
#include "tests/daemon/samples/fake_source.h"

namespace profd::test {

inline StartRequest everything() {
  StartRequest request;
  request.target.all = true;
  return request;
}

inline StartRequest by_comm(const std::string& comm) {
  StartRequest request;
  request.target.comms = {comm};
  return request;
}

inline SyntheticSample sample_at(std::uint64_t address) {
  return SyntheticSample({.tgid = 7, .exec_id = 1, .start_ns = 100}).leaf(address);
}

class SessionsTest : public testing::Test {
 protected:
  static constexpr std::chrono::seconds kHang{30};  // an operation that takes longer hangs

  explicit SessionsTest(const SessionLimits& limits = {}) : limits_(limits) {}

  void SetUp() override { open(); }
  void TearDown() override { close(); }

  // Samples are recorded for the events that `more` do not record.
  void open(std::vector<Recorder*> more = {}) { daemon_.emplace(*this, std::move(more)); }
  void close() {
    if (!daemon_) return;
    boost::asio::co_spawn(io_, sessions().shut_down(), boost::asio::detached);
    daemon_->drain_loop.stop();
    io_.restart();
    io_.run_for(kHang);
    EXPECT_TRUE(io_.stopped()) << "the io context must run dry after the shutdown";
    daemon_.reset();
  }

  std::string directory() const { return windows_.state() / "results"; }
  Sessions& sessions() { return daemon_->sessions; }
  ResultStore& results() { return daemon_->results; }
  WindowHistory& history() { return daemon_->history; }
  // Of the samples of unprivileged callers.
  std::uint64_t budget_bytes() const { return daemon_->recorder.budget().bytes(); }

  using Operation = boost::asio::awaitable<Result<ResultInfo>> (Sessions::*)(Caller, std::string);

  // Runs the io thread until the operation has its result.
  template <class T>
  T run(boost::asio::awaitable<T> operation) {
    std::optional<T> answer;
    boost::asio::co_spawn(io_, std::move(operation),
                          [&answer](const std::exception_ptr& problem, T result) {
                            if (problem) std::rethrow_exception(problem);
                            answer.emplace(std::move(result));
                          });
    run_until([&answer] { return answer.has_value(); });
    return std::move(answer.value());
  }

  // Runs the io thread until `over`.
  void run_until(const std::function<bool()>& over) {
    const auto limit = std::chrono::steady_clock::now() + kHang;
    io_.restart();
    while (!over() && std::chrono::steady_clock::now() < limit)
      io_.run_one_for(std::chrono::milliseconds(100));
    ASSERT_TRUE(over());
  }

  void begin(Operation operation, const Caller& caller, const std::string& id,
             std::optional<Result<ResultInfo>>& answer) {
    boost::asio::co_spawn(io_, (sessions().*operation)(caller, id),
                          [&answer](const std::exception_ptr&, Result<ResultInfo> result) {
                            answer = std::move(result);
                          });
  }

  Result<std::string> start(const Caller& caller, const StartRequest& request) {
    return run(sessions().start(caller, request));
  }
  Result<ResultInfo> stop(const Caller& caller, const std::string& id) {
    return run(sessions().stop(caller, id));
  }
  Result<ResultInfo> dump(const Caller& caller, const std::string& id) {
    return run(sessions().dump(caller, id));
  }

  FabricatedWindows windows_;  // its directory is the state directory
  SessionLimits limits_;
  UidOwners owners_{windows_.state() / "subuid", windows_.state() / "passwd",
                    std::chrono::seconds(0)};
  UserRefusals refusals_;
  boost::asio::io_context io_{1};
  Aggregator aggregator_;
  FakeSource source_{aggregator_};

 private:
  // The parts that a restart of the daemon makes anew.
  struct Parts {
    Parts(SessionsTest& test, std::vector<Recorder*> recorders)
        : results(ResultStore::open(test.directory()).value()),
          windows(test.windows_.open()),
          workers(test.io_, std::make_unique<LocalParser>(), std::make_unique<LocalParser>()),
          history(windows, workers, test.owners_, [] { return StatusInfo::Continuous{}; }),
          drain_loop(test.io_, test.source_),
          recorder({.io = test.io_,
                    .source = test.source_,
                    .aggregator = test.aggregator_,
                    .drain_loop = drain_loop,
                    .limits = test.limits_,
                    .owners = test.owners_,
                    .refusals = &test.refusals_}),
          sessions({.io = test.io_,
                    .results = results,
                    .workers = workers,
                    .history = history,
                    .limits = test.limits_,
                    .owners = test.owners_,
                    .recorders = with(std::move(recorders), recorder)}) {}

    static std::vector<Recorder*> with(std::vector<Recorder*> recorders, Recorder& last) {
      recorders.push_back(&last);
      return recorders;
    }

    ResultStore results;
    WindowStore windows;
    ResultWorkers workers;
    WindowHistory history;
    DrainLoop drain_loop;
    SampleRecorder recorder;
    Sessions sessions;
  };

  std::optional<Parts> daemon_;
};

}  // namespace profd::test
