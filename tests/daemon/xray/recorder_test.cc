// Recordings whose app is this program: it connects, and is not instrumented.

#include "daemon/xray/recorder.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <gmock/gmock.h>

#include "tests/daemon/control/running_server.h"
#include "tests/daemon/local_parser.h"
#include "tests/daemon/xray/blocked_closer.h"

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// A process that waits to be killed.
class SleepingApp {
 public:
  SleepingApp() : pid_(::fork()) {
    if (pid_ != 0) return;
    ::alarm(60);
    for (;;) ::pause();
  }
  SleepingApp(const SleepingApp&) = delete;
  SleepingApp& operator=(const SleepingApp&) = delete;
  ~SleepingApp() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

class XrayRecorderTest : public ::testing::Test {
 protected:
  ~XrayRecorderTest() override {
    apps_->stop();
    io_.run_for(std::chrono::seconds(60));
  }

  [[nodiscard]] std::filesystem::path socket() const { return directory_.path() / "app.sock"; }

  void connect() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::ranges::copy(socket().string(), address.sun_path);
    app_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(app_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    run_until([&] { return apps_->size() == 1; });
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

  void prepare(const StartRequest& request) {
    bool is_prepared = false;
    boost::asio::co_spawn(io_, recorder_.prepare(request.target),
                          [&](const std::exception_ptr&) { is_prepared = true; });
    run_until([&] { return is_prepared; });
  }

  Result<std::shared_ptr<Recording>> start(const StartRequest& request, const std::string& id) {
    prepare(request);
    return recorder_.start({.id = id, .owner = root_, .start = request});
  }

  Result<void> wait_until_begun(Recording& recording) {
    std::optional<Result<void>> begun;
    boost::asio::co_spawn(io_, recording.wait_until_begun(),
                          [&](const std::exception_ptr&, Result<void> result) { begun = result; });
    run_until([&] { return begun.has_value(); });
    return *begun;
  }

  const Caller root_{.uid = 0, .gid = 0, .pid = 0, .privileged = true};
  TemporaryDirectory directory_;
  boost::asio::io_context io_;
  std::unique_ptr<XrayApps> apps_ = XrayApps::open(io_, socket()).value();
  UidOwners owners_{directory_.path() / "subuid", directory_.path() / "passwd",
                    std::chrono::seconds(0)};
  XrayRecorder recorder_{io_, *apps_, owners_};
  UniqueFd app_;
};

TEST_F(XrayRecorderTest, AProcessWithoutAConnectionWhoseProgramDoesNotOpenIsNotFound) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  StartRequest of_child = request();
  of_child.target.pids = {static_cast<std::uint32_t>(child)};
  const auto started = start(of_child, "0000000a");
  ::waitpid(child, nullptr, 0);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(started.error().hint, HasSubstr(socket().string()));
  EXPECT_EQ(recorder_.running(), 0);
}

TEST_F(XrayRecorderTest, AProgramThatIsNotInstrumentedIsRefusedAlsoWithoutAConnection) {
  const auto recording = start(request(), "0000000a");
  ASSERT_TRUE(recording);
  const auto begun = wait_until_begun(**recording);
  ASSERT_FALSE(begun);
  EXPECT_EQ(begun.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(begun.error().message, HasSubstr("not instrumented"));
  EXPECT_THAT(begun.error().hint, HasSubstr("-fxray-instrument"));
}

TEST_F(XrayRecorderTest, ARequestForSeveralProcessesOrARateIsRefused) {
  connect();
  StartRequest many = request();
  many.target.pids.push_back(1);
  StartRequest by_name = request();
  by_name.target.comms = {"app"};
  StartRequest sampled = request();
  sampled.frequency_hz = 99;
  StartRequest no_pattern = request();
  no_pattern.functions = "(";
  for (const StartRequest& refused : {many, by_name, sampled, no_pattern}) {
    const auto valid = recorder_.check(refused);
    ASSERT_FALSE(valid);
    EXPECT_EQ(valid.error().code, ErrorCode::kInvalidArgument);
  }
  EXPECT_TRUE(recorder_.check(request()));
}

TEST_F(XrayRecorderTest, AProgramIsClosedOnTheClosersThreadSinceItMayBeDeleted) {
  const test::BlockedCloser blocked(recorder_.closer());
  prepare(request());
  EXPECT_EQ(blocked.files_behind(), 0U);
  recorder_.every_second();
  EXPECT_EQ(blocked.files_behind(), 1U) << "of a start that was refused";
  auto recording = start(request(), "0000000a");
  ASSERT_TRUE(recording);
  EXPECT_FALSE(wait_until_begun(**recording));
  EXPECT_EQ(blocked.files_behind(), 1U);
  recording->reset();
  run_until([&] { return blocked.files_behind() == 2U; });
}

TEST_F(XrayRecorderTest, ASecondSessionOfAProcessIsRefusedAndTheEndOfTheFirstIsCounted) {
  connect();
  auto recording = start(request(), "0000000a");
  ASSERT_TRUE(recording);
  EXPECT_EQ(recorder_.running(), 1);
  // Without prepare(), during which the first one may end: it is refused before what is prepared.
  const auto second = recorder_.start({.id = "0000000b", .owner = root_, .start = request()});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kBusy);
  const auto first = wait_until_begun(**recording);
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(first.error().message, HasSubstr("not instrumented"));
  EXPECT_THAT(recorder_.ended(), ElementsAre(Pair("app_refused", 1)));
  EXPECT_EQ(recorder_.failed(), 1);
  EXPECT_EQ(recorder_.running(), 0);
}

// Four sessions take 64, 62, 60 and 58 MiB of the user's 256, and the fifth would get less than 32.
// All are prepared first: a session ends once its program is found not to be instrumented.
TEST_F(XrayRecorderTest, TheMemoryOfAUserIsThatOfTheUsersSubordinateUids) {
  constexpr uid_t kOwner = 12345;
  constexpr uid_t kFirst = 700'000;
  std::ofstream(directory_.path() / "subuid") << kOwner << ":" << kFirst << ":65536\n";
  const std::array<SleepingApp, 6> apps{};
  const auto request_for = [&apps](std::size_t app) {
    StartRequest request = XrayRecorderTest::request();
    request.target.pids = {static_cast<std::uint32_t>(apps.at(app).pid())};
    return request;
  };
  for (std::size_t i = 0; i < apps.size(); ++i) prepare(request_for(i));
  std::vector<std::shared_ptr<Recording>> recordings;
  const auto start_as = [&](uid_t uid, std::size_t app) -> Result<void> {
    auto started = recorder_.start({.id = "0000000" + std::to_string(app + 1),
                                    .owner = {.uid = uid, .gid = uid, .pid = 0},
                                    .start = request_for(app)});
    if (!started) return started.error();
    recordings.push_back(std::move(*started));
    return {};
  };
  EXPECT_TRUE(start_as(kOwner, 0));
  for (std::size_t i = 1; i < 4; ++i) EXPECT_TRUE(start_as(kFirst + static_cast<uid_t>(i), i));
  const Result<void> fifth = start_as(kFirst + 9, 4);
  ASSERT_FALSE(fifth);
  EXPECT_EQ(fifth.error().code, ErrorCode::kBusy);
  EXPECT_THAT(fifth.error().message, HasSubstr("one user"));
  EXPECT_TRUE(start_as(kFirst + 65'536, 5)) << "another user";
}

}  // namespace
}  // namespace profd
