// Unprivileged callers and sessions: their own, a few, and at a limited rate.

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "tests/daemon/callers.h"
#include "tests/daemon/sessions/sessions_fixture.h"

namespace profd {
namespace {

using std::chrono_literals::operator""s;
using test::by_comm;
using test::everything;
using test::kAlice;
using test::kBob;
using test::kRoot;
using test::sample_at;
using test::SessionsTest;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST_F(SessionsTest, RestrictsAnUnprivilegedCaller) {
  const std::string id = start(kAlice, by_comm("x")).value();
  ASSERT_TRUE(source_.slots[0]->target.restrict_to);
  EXPECT_EQ(source_.slots[0]->target.restrict_to->uid, kAlice.uid);
  EXPECT_EQ(source_.slots[0]->target.restrict_to->gid, kAlice.gid);
  EXPECT_EQ(start(kAlice, everything()).error().code, ErrorCode::kPermissionDenied);
  start(kRoot, everything()).value();
  EXPECT_FALSE(source_.slots[1]->target.restrict_to);
  source_.take(sample_at(1).kernel(0xffffffff9a123456), 0);
  const Result<ResultInfo> result = stop(kAlice, id);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_THAT(result->files,
              testing::Contains(testing::Field(&ResultFile::path, "objects/kernel.so")));
}

TEST_F(SessionsTest, SeparatesUnprivilegedCallers) {
  const std::string id = start(kAlice, by_comm("x")).value();
  EXPECT_THAT(sessions().sessions(kBob), IsEmpty());
  EXPECT_THAT(sessions().sessions(kRoot), SizeIs(1));
  EXPECT_EQ(sessions().session(kBob, id).error().code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(stop(kBob, id).error().code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(dump(kBob, id).error().code, ErrorCode::kPermissionDenied);
  ASSERT_TRUE(source_.slots[0]);
  source_.take(sample_at(1), 0);
  const Result<ResultInfo> result = stop(kAlice, id);
  ASSERT_TRUE(result);
  EXPECT_EQ(stop(kBob, id).error().code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(sessions().open_result_file(kBob, id, "unknown.7.prof").error().code,
            ErrorCode::kPermissionDenied);
  EXPECT_EQ(sessions().remove_result(kBob, id).error().code, ErrorCode::kPermissionDenied);
  EXPECT_TRUE(sessions().open_result_file(kAlice, id, "unknown.7.prof"));
  EXPECT_TRUE(sessions().remove_result(kRoot, id));
}

TEST_F(SessionsTest, AllowsAnUnprivilegedCallerFourSessions) {
  std::vector<std::string> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(start(kAlice, by_comm("x")).value());
  const Result<std::string> fifth = start(kAlice, by_comm("x"));
  ASSERT_FALSE(fifth);
  EXPECT_EQ(fifth.error().code, ErrorCode::kTooLarge);
  EXPECT_THAT(fifth.error().hint, HasSubstr("profctl list"));
  EXPECT_TRUE(start(kBob, by_comm("x")));
  EXPECT_TRUE(start(kRoot, by_comm("x")));
  ASSERT_TRUE(stop(kAlice, ids[0]));  // ended ones count as well
  EXPECT_FALSE(start(kAlice, by_comm("x")));
  ASSERT_TRUE(sessions().remove_result(kAlice, ids[0]));
  EXPECT_TRUE(start(kAlice, by_comm("x")));
}

TEST_F(SessionsTest, ChecksTheLimitsOfACallerBeforeItsRightsToManyProcesses) {
  for (int i = 0; i < 4; ++i) start(kAlice, by_comm("x")).value();
  StartRequest of_root;
  of_root.target.pids = {1};
  EXPECT_EQ(start(kAlice, of_root).error().code, ErrorCode::kTooLarge);
}

// A process of Alice that waits.
class AlicesProcess {
 public:
  AlicesProcess() {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) return;
    const UniqueFd ready(ends[0]);
    UniqueFd ready_end(ends[1]);
    pid_ = ::fork();
    if (pid_ == 0) {
      const bool became = ::setresgid(kAlice.gid, kAlice.gid, kAlice.gid) == 0 &&
                          ::setresuid(kAlice.uid, kAlice.uid, kAlice.uid) == 0 &&
                          ::prctl(PR_SET_DUMPABLE, 1) == 0;
      if (became && ::write(ready_end.get(), "x", 1) == 1) ::pause();
      ::_exit(1);
    }
    ready_end.reset();
    char byte = 0;
    EXPECT_EQ(::read(ready.get(), &byte, 1), 1) << "this test needs root";
  }
  AlicesProcess(const AlicesProcess&) = delete;
  AlicesProcess& operator=(const AlicesProcess&) = delete;
  ~AlicesProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

TEST_F(SessionsTest, OthersAreServedWhileTheRightsToManyProcessesAreChecked) {
  constexpr std::size_t kPids = 256;
  const AlicesProcess process;
  const Caller alice{.uid = kAlice.uid, .gid = kAlice.gid, .pid = ::getpid(), .privileged = false};
  StartRequest request;
  request.target.pids.assign(kPids, static_cast<std::uint32_t>(process.pid()));
  std::array<std::optional<Result<std::string>>, 3> started;
  for (auto& one : started) {
    boost::asio::co_spawn(
        io_, sessions().start(alice, request),
        [&one](const std::exception_ptr&, Result<std::string> id) { one = std::move(id); });
  }
  io_.restart();
  std::size_t turns = 0;  // of the event loop
  while (!std::ranges::all_of(started, [](const auto& one) { return one.has_value(); })) {
    ASSERT_GT(io_.run_one_for(kHang), 0U);
    ++turns;
  }
  for (const auto& one : started) EXPECT_TRUE(*one);
  EXPECT_GE(turns, started.size() * kPids / 16);
}

TEST_F(SessionsTest, AllowsAnUnprivilegedCallerFourDumps) {
  const std::string id = start(kAlice, by_comm("x")).value();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(dump(kAlice, id));
  const Result<ResultInfo> fifth = dump(kAlice, id);
  ASSERT_FALSE(fifth);
  EXPECT_EQ(fifth.error().code, ErrorCode::kTooLarge);
  EXPECT_NE(fifth.error().hint, "");
  const std::string of_bob = start(kBob, by_comm("x")).value();
  EXPECT_TRUE(dump(kBob, of_bob));
  EXPECT_TRUE(dump(kRoot, of_bob));
  ASSERT_TRUE(sessions().remove_result(kAlice, id + "-dump-2"));
  EXPECT_TRUE(dump(kAlice, id));
}

TEST_F(SessionsTest, CountsTheDumpsThatAreBeingWritten) {
  const std::string id = start(kAlice, by_comm("x")).value();
  std::array<std::optional<Result<ResultInfo>>, 8> answers;
  for (auto& answer : answers) begin(&Sessions::dump, kAlice, id, answer);
  run_until([&] { return std::ranges::all_of(answers, [](const auto& a) { return !!a; }); });
  EXPECT_EQ(std::ranges::count_if(answers, [](const auto& a) { return a->has_value(); }), 4);
}

TEST_F(SessionsTest, LimitsTheRateOfAnUnprivilegedCaller) {
  struct Case {
    const char* event;
    std::uint64_t frequency_hz;
    std::uint64_t period;
    bool allowed;
    const char* limit;  // part of the error
  };
  const Case table[] = {
      {"cpu", 999, 0, true, ""},
      {"cpu", 1000, 0, false, "999 Hz"},
      {"cpu", 0, 1'000'000, true, ""},
      {"cpu", 0, 999'999, false, "1 ms"},
      {"page-faults", 999, 0, true, ""},
      {"page-faults", 1000, 0, false, "999 Hz"},
      {"page-faults", 0, 1'000'000, false, "root"},
      {"wall", 1000, 0, false, "999 Hz"},
      {"off-cpu", 0, 0, true, ""},  // the fourth session of the user, who may have no more
  };
  for (const Case& c : table) {
    SCOPED_TRACE(std::string(c.event) + " " + std::to_string(c.frequency_hz + c.period));
    StartRequest request = by_comm("x");
    request.event = c.event;
    request.frequency_hz = c.frequency_hz;
    request.period = c.period;
    EXPECT_TRUE(start(kRoot, request));
    const Result<std::string> decided = start(kAlice, request);
    ASSERT_EQ(decided.has_value(), c.allowed);
    if (!decided) {
      EXPECT_EQ(decided.error().code, ErrorCode::kPermissionDenied);
      EXPECT_THAT(decided.error().message, HasSubstr(c.limit));
    }
  }
}

TEST_F(SessionsTest, CountsSubordinateUidsWithTheirUser) {
  constexpr uid_t kFirst = 100'000;
  std::ofstream(windows_.state() / "subuid") << kAlice.uid << ":" << kFirst << ":65536\n";
  const auto subordinate = [](uid_t number) { return Caller{.uid = kFirst + number, .gid = 1}; };
  for (uid_t i = 0; i < 3; ++i) start(subordinate(i), by_comm("x")).value();
  start(kAlice, by_comm("x")).value();
  EXPECT_EQ(start(subordinate(9), by_comm("x")).error().code, ErrorCode::kTooLarge);
  EXPECT_EQ(start(kAlice, by_comm("x")).error().code, ErrorCode::kTooLarge);
  EXPECT_TRUE(start(kBob, by_comm("x")));
  EXPECT_TRUE(start({.uid = kFirst + 65'536, .gid = 1}, by_comm("x")));
}

TEST_F(SessionsTest, AResultOverTheLimitOfTheDiskIsRefusedAndCanBeWrittenLater) {
  const std::string id = start(kAlice, by_comm("x")).value();
  results().set_max_bytes(800);  // of which a user has 100, less than an empty result takes
  EXPECT_EQ(stop(kAlice, id).error().code, ErrorCode::kTooLarge);
  EXPECT_EQ(results().refused(), 1U);
  EXPECT_TRUE(std::filesystem::is_empty(directory()));
  results().set_max_bytes(std::uint64_t{1} << 30);
  EXPECT_TRUE(stop(kAlice, id));
  EXPECT_EQ(results().refused(), 1U);
}

class SmallSessionsTest : public SessionsTest {
 protected:
  SmallSessionsTest()
      : SessionsTest({.session_max_bytes = 1 << 30,
                      .unprivileged_max_bytes = 64 << 10,
                      .unprivileged_max_sessions = 4,
                      .unprivileged_keep = 0s}) {}
};

TEST_F(SmallSessionsTest, CountsTheSamplesOverACallersShareOfMemory) {
  const std::string id = start(kAlice, by_comm("x")).value();
  for (std::uint64_t i = 0; i < 1000; ++i) source_.take(sample_at(i), 0);
  const SessionLedger ledger = stop(kAlice, id)->summary.ledger;
  EXPECT_EQ(ledger.taken, 1000U);
  EXPECT_GT(ledger.lost.at("memory_limit"), 0U);
  EXPECT_EQ(refusals_.users().at(0).refused.at("ledger.lost.memory_limit"),
            ledger.lost.at("memory_limit"));
  EXPECT_EQ(ledger.difference(), 0);
}

TEST_F(SmallSessionsTest, CountsTheSamplesThatAreBeingWritten) {
  std::string id;
  for (SessionSlot slot = 0; slot < 3; ++slot) {  // each fills its quarter
    id = start(kAlice, by_comm("x")).value();
    for (std::uint64_t i = 0; i < 1000; ++i) source_.take(sample_at(i), slot);
  }
  source_.drain();
  std::optional<Result<ResultInfo>> first;
  std::optional<Result<ResultInfo>> second;
  begin(&Sessions::dump, kAlice, id, first);
  begin(&Sessions::dump, kAlice, id, second);
  run_until([&] { return first && second; });
  EXPECT_TRUE(*first);
  ASSERT_FALSE(*second);
  EXPECT_EQ(second->error().code, ErrorCode::kTooLarge);
}

// Each session has room for more than one user's part of the budget: 128 KiB alone, else 32 KiB.
class BudgetSessionsTest : public SessionsTest {
 protected:
  BudgetSessionsTest()
      : SessionsTest({.session_max_bytes = 1 << 30,
                      .unprivileged_max_bytes = 1 << 20,
                      .unprivileged_samples_bytes = 256 << 10}) {}

  // Each sample has a stack of its own, which takes over 100 bytes.
  void fill(SessionSlot slot, std::uint64_t samples) {
    for (std::uint64_t i = 0; i < samples; ++i) source_.take(sample_at(++address_), slot);
    source_.drain();
  }

  std::uint64_t address_ = 1000;
};

TEST_F(BudgetSessionsTest, OneUsersSamplesLeaveOthersTheirPartAndRootAll) {
  const std::string of_alice = start(kAlice, by_comm("x")).value();
  const std::string of_bob = start(kBob, by_comm("x")).value();
  const std::string of_root = start(kRoot, everything()).value();
  fill(0, 2000);
  const std::uint64_t first = budget_bytes();
  EXPECT_LE(first, 128U << 10);
  EXPECT_GT(first, 100U << 10);
  fill(1, 1000);
  const std::uint64_t second = budget_bytes() - first;
  EXPECT_LE(second, 32U << 10);
  EXPECT_GT(second, 16U << 10);
  fill(2, 5000);
  EXPECT_EQ(sessions().session(kRoot, of_root)->samples, 5000U);
  EXPECT_EQ(sessions().session(kRoot, of_root)->lost, 0U);
  EXPECT_EQ(budget_bytes(), first + second);

  const Result<ResultInfo> stopped = stop(kAlice, of_alice);
  ASSERT_TRUE(stopped) << stopped.error().message;
  const SessionLedger& ledger = stopped->summary.ledger;
  EXPECT_GT(ledger.lost.at("memory_limit"), 0U);
  EXPECT_EQ(ledger.difference(), 0);
  EXPECT_EQ(refusals_.users().at(0).uid, kAlice.uid);
  EXPECT_EQ(refusals_.users().at(0).refused.at("ledger.lost.memory_limit"),
            ledger.lost.at("memory_limit"));
  run_until([&] { return budget_bytes() == second; });  // Alice's are on the disk
}

TEST_F(BudgetSessionsTest, SamplesThatCouldNotBeStoredAreChargedUntilTheyAreRemoved) {
  const std::string id = start(kAlice, by_comm("x")).value();
  fill(0, 100);
  const std::uint64_t charged = budget_bytes();
  EXPECT_GT(charged, 100U * 64);
  results().set_max_bytes(800);  // of which a user has 100, less than an empty result takes
  EXPECT_EQ(stop(kAlice, id).error().code, ErrorCode::kTooLarge);
  EXPECT_EQ(budget_bytes(), charged);
  ASSERT_TRUE(sessions().remove_result(kAlice, id));
  run_until([&] { return budget_bytes() == 0; });
}

TEST_F(BudgetSessionsTest, ADumpNeedsRoomForItsCopy) {
  const std::string id = start(kAlice, by_comm("x")).value();
  fill(0, 100);
  const std::uint64_t charged = budget_bytes();
  EXPECT_TRUE(dump(kAlice, id));
  run_until([&] { return budget_bytes() == charged; });
  fill(0, 2000);
  const Result<ResultInfo> refused = dump(kAlice, id);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kTooLarge);
  EXPECT_THAT(refused.error().hint, HasSubstr("profctl stop " + id));
}

TEST_F(BudgetSessionsTest, SubordinateUidsHaveTheirUsersPart) {
  constexpr uid_t kFirst = 100'000;
  std::ofstream(windows_.state() / "subuid") << kAlice.uid << ":" << kFirst << ":65536\n";
  start(kAlice, by_comm("x")).value();
  const Caller subordinate{.uid = kFirst + 7, .gid = 1};
  const std::string id = start(subordinate, by_comm("x")).value();
  fill(0, 2000);
  fill(1, 1000);
  EXPECT_EQ(sessions().session(subordinate, id)->samples, 0U);
  EXPECT_EQ(sessions().session(subordinate, id)->lost, 1000U);
}

}  // namespace
}  // namespace profd
