// What the sessions do with a recording of any kind.

#include "daemon/sessions/recording.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <gmock/gmock.h>

#include "tests/daemon/callers.h"
#include "tests/daemon/sessions/sessions_fixture.h"

namespace profd {
namespace {

using std::chrono_literals::operator""s;
using test::everything;
using test::kRoot;
using testing::IsEmpty;
using testing::SizeIs;

StartRequest of_processes(const std::vector<pid_t>& pids) {
  StartRequest request;
  request.target.pids.assign(pids.begin(), pids.end());
  return request;
}

Result<SessionSummary> write_no_data(CodeNaming& /*naming*/, ResultWriter& /*writer*/) {
  return SessionSummary{};
}

// Does as the test says.
struct Script {
  std::optional<Error> not_begun;
  std::optional<Error> failed;
  bool has_lost_its_targets = false;
  int ends = 0;
  int stored = 0;
  int takes = 0;
  bool has_parts = false;
  bool has_memory = true;
};

class FakeRecording final : public Recording {
 public:
  FakeRecording(RecordingRequest request, Script& script)
      : Recording(std::move(request)), script_(script) {}

  boost::asio::awaitable<Result<void>> wait_until_begun() override {
    if (script_.not_begun) co_return *script_.not_begun;
    co_return Result<void>();
  }
  [[nodiscard]] bool has_lost_its_targets() const override { return script_.has_lost_its_targets; }
  boost::asio::awaitable<Result<Measurement>> finish() override {
    if (script_.failed) co_return *script_.failed;
    co_return Measurement(write_no_data);
  }
  boost::asio::awaitable<Result<Measurement>> copy() override {
    co_return Measurement(write_no_data);
  }
  boost::asio::awaitable<Result<NamedPart>> take() override {
    if (!script_.has_parts) co_return co_await Recording::take();
    NamedPart part = [number = ++script_.takes, &script = script_](CodeNaming&) {
      return script.has_memory ? Result<std::string>("part " + std::to_string(number))
                               : Result<std::string>(fail(ErrorCode::kInternal, "no memory"));
    };
    co_return part;
  }
  [[nodiscard]] std::uint64_t bytes() const override { return 0; }
  std::function<void()> on_stored() override {
    ++script_.stored;
    return {};
  }

 private:
  void end() override { ++script_.ends; }
  void describe(SessionInfo& info) const override { info.event = request().event; }

  Script& script_;
};

class FakeRecorder final : public Recorder {
 public:
  [[nodiscard]] bool records(std::string_view event) const override { return event == "fake"; }
  [[nodiscard]] Result<void> check(const StartRequest& /*request*/) const override {
    if (invalid) return *invalid;
    return {};
  }
  boost::asio::awaitable<void> prepare(TargetRequest /*target*/) override {
    ++prepared;
    while (is_preparing) {
      co_await yield();
    }
  }
  Result<std::shared_ptr<Recording>> start(RecordingRequest request) override {
    return std::make_shared<FakeRecording>(std::move(request), script);
  }

  Script script;
  std::optional<Error> invalid;
  int prepared = 0;
  bool is_preparing = false;
};

class RecordingTest : public test::SessionsTest {
 protected:
  RecordingTest() : SessionsTest(SessionLimits{.unprivileged_keep = 0s}) {}

  void SetUp() override { open({&recorder_}); }

  Result<std::string> start_fake(std::uint64_t duration_ms = 0) {
    StartRequest request = everything();
    request.event = "fake";
    request.duration_ms = duration_ms;
    return start(kRoot, request);
  }

  using Started = std::optional<Result<std::string>>;

  // Returns while the recorder prepares.
  void begin_start(const Caller& caller, Started& started,
                   StartRequest request = test::by_comm("x")) {
    request.event = "fake";
    boost::asio::co_spawn(
        io_, sessions().start(caller, request),
        [&started](const std::exception_ptr&, Result<std::string> id) { started = std::move(id); });
    io_.restart();
    for (int i = 0; i < 20; ++i) io_.run_one();
    EXPECT_FALSE(started);
  }

  FakeRecorder recorder_;
};

TEST_F(RecordingTest, IsMadeByTheRecorderOfItsEvent) {
  ASSERT_TRUE(start_fake());
  EXPECT_FALSE(source_.slots[0]);
  ASSERT_TRUE(start(kRoot, everything()));
  EXPECT_TRUE(source_.slots[0]);
}

TEST_F(RecordingTest, IsNotPreparedForAnInvalidRequest) {
  recorder_.invalid = fail(ErrorCode::kInvalidArgument, "it has no frequency");
  EXPECT_EQ(start_fake().error().message, "it has no frequency");
  EXPECT_EQ(recorder_.prepared, 0);
}

TEST_F(RecordingTest, ThatDoesNotBeginLeavesNoSession) {
  recorder_.script.not_begun = fail(ErrorCode::kUnsupported, "not instrumented");
  EXPECT_EQ(start_fake().error().message, "not instrumented");
  EXPECT_THAT(sessions().sessions(kRoot), IsEmpty());
}

TEST_F(RecordingTest, StartsThatAreBeingPreparedStayWithinTheLimit) {
  recorder_.is_preparing = true;
  std::vector<Started> started(limits_.unprivileged_max_sessions + 2);
  for (Started& one : started) begin_start(test::kAlice, one);
  recorder_.is_preparing = false;
  run_until([&] {
    return std::ranges::all_of(started, [](const Started& one) { return one.has_value(); });
  });
  const auto count = std::ranges::count_if(started, [](const Started& one) { return bool{*one}; });
  EXPECT_EQ(count, static_cast<std::ptrdiff_t>(limits_.unprivileged_max_sessions));
  for (const Started& one : started) {
    EXPECT_TRUE(*one || one->error().code == ErrorCode::kTooLarge);
  }
}

TEST_F(RecordingTest, ThatIsBeingPreparedAtTheShutdownDoesNotStart) {
  recorder_.is_preparing = true;
  Started started;
  begin_start(kRoot, started);
  EXPECT_TRUE(run(sessions().shut_down()));
  recorder_.is_preparing = false;
  run_until([&] { return started.has_value(); });
  EXPECT_EQ(started->error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(sessions().sessions(kRoot), IsEmpty());
}

TEST_F(RecordingTest, OfAProcessThatEndsWhileItIsPreparedDoesNotStart) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  recorder_.is_preparing = true;
  Started started;
  begin_start(kRoot, started, of_processes({child}));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  recorder_.is_preparing = false;
  run_until([&] { return started.has_value(); });
  ASSERT_FALSE(*started);
  EXPECT_EQ(started->error().code, ErrorCode::kNotFound);
}

TEST_F(RecordingTest, ThatLosesItsTargetsIsStored) {
  const std::string id = start_fake().value();
  recorder_.script.has_lost_its_targets = true;
  run_until([this] { return recorder_.script.stored == 1; });
  EXPECT_EQ(recorder_.script.ends, 1);
  EXPECT_EQ(sessions().session(kRoot, id)->state, "ended");
}

// TearDown() checks that the io context runs dry.
TEST_F(RecordingTest, ThatEndsBeforeItsDurationDoesNotDelayTheShutdown) {
  start_fake(3'600'000).value();
  recorder_.script.has_lost_its_targets = true;
  run_until([this] { return recorder_.script.stored == 1; });
}

TEST_F(RecordingTest, WithoutPartsSaysThatNoneCanBeTaken) {
  const std::string id = start_fake().value();
  EXPECT_EQ(run(sessions().take(kRoot, id)).error().code, ErrorCode::kUnsupported);
}

TEST_F(RecordingTest, ThatCouldNotBeEncodedGivesTheSamePartToTheNextTake) {
  recorder_.script.has_parts = true;
  recorder_.script.has_memory = false;
  const std::string id = start_fake().value();
  EXPECT_EQ(run(sessions().take(kRoot, id)).error().message, "no memory");
  recorder_.script.has_memory = true;
  EXPECT_EQ(run(sessions().take(kRoot, id)).value(), "part 1");
  EXPECT_EQ(run(sessions().take(kRoot, id)).value(), "part 2");
}

TEST_F(RecordingTest, ThatFailsGivesItsReasonToTheFirstStop) {
  recorder_.script.failed = fail(ErrorCode::kTimeout, "the app does not answer");
  const std::string id = start_fake().value();
  EXPECT_EQ(stop(kRoot, id).error().message, "the app does not answer");
  EXPECT_EQ(stop(kRoot, id).error().code, ErrorCode::kNotFound);
}

TEST_F(RecordingTest, ThatFailsIsForgottenAfterAWhile) {
  recorder_.script.failed = fail(ErrorCode::kTimeout, "the app does not answer");
  start_fake().value();
  EXPECT_THAT(sessions().sessions(kRoot), SizeIs(1));
  recorder_.script.has_lost_its_targets = true;
  run_until([this] { return sessions().sessions(kRoot).empty(); });
}

}  // namespace
}  // namespace profd
