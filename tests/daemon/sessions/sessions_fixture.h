// Sessions over a source that does as the test says.

#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>

#include "daemon/sessions/sessions.h"
#include "tests/daemon/local_parser.h"
#include "tests/daemon/samples/fake_source.h"
#include "tests/formats/readers.h"

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
  static constexpr std::chrono::seconds kHang{30};  // whatever takes longer never comes

  explicit SessionsTest(const SessionLimits& limits = {}) : limits_(limits) {}

  void SetUp() override { open(); }
  void TearDown() override { close(); }

  void open() {
    sessions_.emplace(io_, source_, aggregator_, ResultStore::open(directory()).value(),
                      std::make_unique<LocalParser>(), limits_);
  }
  void close() {
    if (!sessions_) return;
    boost::asio::co_spawn(io_, sessions_->shut_down(), boost::asio::detached);
    io_.restart();
    io_.run_for(kHang);
    sessions_.reset();
  }

  std::string directory() const { return scratch_.path() / "results"; }
  Sessions& sessions() { return *sessions_; }

  using Verb = boost::asio::awaitable<Result<ResultInfo>> (Sessions::*)(Caller, std::string);

  // Runs the io thread until `over`.
  void run_until(const std::function<bool()>& over) {
    const auto limit = std::chrono::steady_clock::now() + kHang;
    io_.restart();
    while (!over() && std::chrono::steady_clock::now() < limit)
      io_.run_one_for(std::chrono::milliseconds(100));
    ASSERT_TRUE(over());
  }

  void begin(Verb verb, const Caller& caller, const std::string& id,
             std::optional<Result<ResultInfo>>& answer) {
    boost::asio::co_spawn(io_, (sessions().*verb)(caller, id),
                          [&answer](const std::exception_ptr&, Result<ResultInfo> result) {
                            answer = std::move(result);
                          });
  }

  Result<ResultInfo> run(Verb verb, const Caller& caller, const std::string& id) {
    std::optional<Result<ResultInfo>> answer;
    begin(verb, caller, id, answer);
    run_until([&answer] { return answer.has_value(); });
    return answer.value();
  }
  Result<ResultInfo> stop(const Caller& caller, const std::string& id) {
    return run(&Sessions::stop, caller, id);
  }
  Result<ResultInfo> dump(const Caller& caller, const std::string& id) {
    return run(&Sessions::dump, caller, id);
  }

  ScratchDirectory scratch_;
  SessionLimits limits_;
  boost::asio::io_context io_{1};
  Aggregator aggregator_;
  FakeSource source_{aggregator_};
  std::optional<Sessions> sessions_;
};

}  // namespace profd::test
