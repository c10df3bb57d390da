// Sessions whose app is this very program: it has come, and is not instrumented.

#include "daemon/xray/sessions.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include <boost/asio/co_spawn.hpp>
#include <gmock/gmock.h>

#include "tests/daemon/control/running_server.h"
#include "tests/daemon/local_parser.h"

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

class XraySessionsTest : public ::testing::Test {
 protected:
  XraySessionsTest()
      : store_(ResultStore::open(directory_.path() / "results").value()),
        worker_(std::make_unique<test::LocalParser>()),
        sessions_({.io = io_, .store = store_, .worker = worker_},
                  XrayApps::open(io_, socket()).value()) {}
  ~XraySessionsTest() override {
    boost::asio::co_spawn(io_, sessions_.shut_down(), [](const std::exception_ptr&, bool) {});
    io_.run_for(std::chrono::seconds(60));
  }

  [[nodiscard]] std::filesystem::path socket() const { return directory_.path() / "app.sock"; }

  void come() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::ranges::copy(socket().string(), address.sun_path);
    app_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(app_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    run_until([&] { return sessions_.apps().size() == 1; });
  }

  void run_until(const std::function<bool()>& done) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!done() && std::chrono::steady_clock::now() < limit)
      io_.run_one_for(std::chrono::milliseconds(10));
    EXPECT_TRUE(done());
  }

  static StartRequest request() {
    StartRequest request;
    request.target.pids = {static_cast<std::uint32_t>(::getpid())};
    request.event = kXrayEvent;
    return request;
  }

  Result<void> under_way(const std::string& id) {
    std::optional<Result<void>> said;
    boost::asio::co_spawn(io_, sessions_.under_way(id),
                          [&](const std::exception_ptr&, Result<void> result) { said = result; });
    run_until([&] { return said.has_value(); });
    return *said;
  }

  const Caller root_{.uid = 0, .gid = 0, .pid = 0, .privileged = true};
  TemporaryDirectory directory_;
  boost::asio::io_context io_;
  ResultStore store_;
  StoreWorker worker_;
  XraySessions sessions_;
  UniqueFd app_;
};

TEST_F(XraySessionsTest, AProcessThatHasNotComeAndWhoseProgramDoesNotOpenIsNotFound) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  StartRequest of_child = request();
  of_child.target.pids = {static_cast<std::uint32_t>(child)};
  const auto started = sessions_.start(root_, of_child, "0000000a");
  ::waitpid(child, nullptr, 0);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(started.error().hint, HasSubstr(socket().string()));
  EXPECT_THAT(sessions_.all(), IsEmpty());
}

TEST_F(XraySessionsTest, AProgramThatIsNotInstrumentedIsToldSoThoughItHasNotCome) {
  ASSERT_TRUE(sessions_.start(root_, request(), "0000000a"));
  const auto said = under_way("0000000a");
  ASSERT_FALSE(said);
  EXPECT_EQ(said.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(said.error().message, HasSubstr("not instrumented"));
  EXPECT_THAT(said.error().hint, HasSubstr("-fxray-instrument"));
}

TEST_F(XraySessionsTest, WhatOneProcessAndEveryCallHaveNotIsRefused) {
  come();
  StartRequest many = request();
  many.target.pids.push_back(1);
  StartRequest by_name = request();
  by_name.target.comms = {"app"};
  StartRequest sampled = request();
  sampled.frequency_hz = 99;
  StartRequest no_pattern = request();
  no_pattern.functions = "(";
  for (const StartRequest& refused : {many, by_name, sampled, no_pattern}) {
    const auto started = sessions_.start(root_, refused, "0000000a");
    ASSERT_FALSE(started);
    EXPECT_EQ(started.error().code, ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(sessions_.running(), 0);
}

TEST_F(XraySessionsTest, ASecondSessionOfAProcessIsRefusedAndTheFirstsEndIsCounted) {
  come();
  ASSERT_TRUE(sessions_.start(root_, request(), "0000000a"));
  EXPECT_EQ(sessions_.running(), 1);
  const auto second = sessions_.start(root_, request(), "0000000b");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kBusy);
  const auto first = under_way("0000000a");
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(first.error().message, HasSubstr("not instrumented"));
  EXPECT_THAT(sessions_.ended(), ElementsAre(Pair("app_refused", 1)));
  EXPECT_EQ(sessions_.failed(), 1);
  EXPECT_THAT(sessions_.all(), IsEmpty());
}

}  // namespace
}  // namespace profd
