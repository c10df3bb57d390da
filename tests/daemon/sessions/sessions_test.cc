#include "daemon/sessions/sessions.h"

#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <future>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <gmock/gmock.h>

#include "tests/daemon/callers.h"
#include "tests/daemon/sessions/sessions_fixture.h"
#include "tests/daemon/storage/fsync_watch.h"

namespace profd {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using test::everything;
using test::kAlice;
using test::kRoot;
using test::sample_at;
using test::SessionsTest;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::SizeIs;

TEST_F(SessionsTest, WritesTheSamplesBetweenStartAndStop) {
  const std::string id = start(kRoot, everything()).value();
  EXPECT_THAT(id, MatchesRegex("[0-9a-f]+"));
  EXPECT_THAT(id, SizeIs(8));
  for (std::uint64_t i = 0; i < 5; ++i) source_.take(sample_at(i), 0);
  const Result<ResultInfo> result = stop(kRoot, id);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->result, id);
  EXPECT_EQ(result->summary.session, id);
  EXPECT_EQ(result->summary.ledger.taken, 5U);
  EXPECT_EQ(result->summary.ledger.written, 5U);
  EXPECT_EQ(result->summary.ledger.difference(), 0);
  EXPECT_TRUE(sessions().open_result_file(kRoot, id, "unknown.7.prof"));
  EXPECT_FALSE(source_.slots[0]);
  run_until([this] { return source_.releases == 1; });
}

TEST_F(SessionsTest, ShowsALossThatIsNotCounted) {
  const std::string id = start(kRoot, everything()).value();
  source_.take(sample_at(1), 0);
  source_.slots[0]->ledger.taken += 2;  // lost without a count
  EXPECT_EQ(stop(kRoot, id)->summary.ledger.difference(), 2);
}

TEST_F(SessionsTest, GivesTheSameResultToEachStop) {
  const std::string id = start(kRoot, everything()).value();
  source_.take(sample_at(1), 0);
  std::optional<Result<ResultInfo>> first;
  std::optional<Result<ResultInfo>> second;
  begin(&Sessions::stop, kRoot, id, first);
  begin(&Sessions::stop, kRoot, id, second);
  run_until([&] { return first && second; });
  ASSERT_TRUE(*first);
  ASSERT_TRUE(*second) << second->error().message;
  EXPECT_EQ(**first, **second);
  EXPECT_EQ(*stop(kRoot, id), **first);
}

TEST_F(SessionsTest, ServesOthersWhileTheLastSamplesOfASessionAreOnTheirWay) {
  const std::string id = start(kRoot, everything()).value();
  source_.take(sample_at(1), 0);
  source_.is_late = true;
  std::optional<Result<ResultInfo>> stopped;
  begin(&Sessions::stop, kRoot, id, stopped);
  const std::string other = start(kRoot, everything()).value();
  source_.take(sample_at(2), 1);
  EXPECT_FALSE(stopped);
  source_.take(sample_at(3), 0);  // arrives after the stop
  source_.is_late = false;
  ASSERT_TRUE(stop(kRoot, other));
  run_until([&] { return stopped.has_value(); });
  ASSERT_TRUE(*stopped) << stopped->error().message;
  EXPECT_EQ((*stopped)->summary.ledger.written, 2U);
}

TEST_F(SessionsTest, ForgetsARemovedResult) {
  const std::string id = start(kRoot, everything()).value();
  ASSERT_TRUE(stop(kRoot, id));
  EXPECT_THAT(sessions().sessions(kRoot), SizeIs(1));
  ASSERT_TRUE(sessions().remove_result(kRoot, id));
  EXPECT_EQ(stop(kRoot, id).error().code, ErrorCode::kNotFound);
  EXPECT_THAT(sessions().sessions(kRoot), IsEmpty());
}

TEST_F(SessionsTest, DumpsWithoutEnding) {
  const std::string id = start(kRoot, everything()).value();
  source_.take(sample_at(1), 0);
  const Result<ResultInfo> first = dump(kRoot, id);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->result, id + "-dump-1");
  EXPECT_EQ(first->summary.ledger.written, 1U);
  EXPECT_EQ(first->summary.ledger.difference(), 0);
  source_.take(sample_at(2), 0);
  EXPECT_EQ(dump(kRoot, id)->result, id + "-dump-2");
  EXPECT_EQ(sessions().session(kRoot, id)->state, "running");
  EXPECT_THAT(sessions().sessions(kRoot), SizeIs(1));
  EXPECT_EQ(stop(kRoot, id)->summary.ledger.written, 2U);
  EXPECT_EQ(dump(kRoot, id).error().code, ErrorCode::kInvalidArgument);
}

// The ledger of the dump never agrees with its samples.
TEST_F(SessionsTest, ServesOthersBetweenTheTriesOfADump) {
  const std::string id = start(kRoot, everything()).value();
  source_.take(sample_at(1), 0);
  ++source_.slots[0]->ledger.taken;
  std::optional<Result<ResultInfo>> dumped;
  std::optional<Result<ResultInfo>> stopped;
  begin(&Sessions::dump, kRoot, id, dumped);
  begin(&Sessions::stop, kRoot, id, stopped);
  run_until([&] { return dumped.has_value() && stopped.has_value(); });
  ASSERT_FALSE(*dumped);
  EXPECT_EQ(dumped->error().message, "session " + id + " has ended");
  ASSERT_TRUE(*stopped) << stopped->error().message;
  EXPECT_EQ((*stopped)->summary.ledger.written, 1U);
}

TEST_F(SessionsTest, EndsAndStoresASessionWhoseDurationIsOver) {
  StartRequest request = everything();
  request.duration_ms = 10;
  const std::string id = start(kRoot, request).value();
  source_.take(sample_at(1), 0);
  run_until([&] { return sessions().session(kRoot, id)->state == "ended"; });
  EXPECT_FALSE(source_.slots[0]);
  const Result<ResultInfo> result = stop(kRoot, id);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->summary.ledger.written, 1U);
}

TEST_F(SessionsTest, EndsASessionWhoseLeaseHasExpired) {
  StartRequest request = everything();
  request.lease_ms = 100;
  const std::string abandoned = start(kRoot, request).value();
  source_.take(sample_at(1), 0);
  request.lease_ms = 60'000;
  const std::string wanted = start(kRoot, request).value();
  const auto state_of = [this](const std::string& id) {
    const auto all = sessions().sessions(kRoot);
    return std::ranges::find(all, id, &SessionInfo::session)->state;
  };
  run_until([&] { return state_of(abandoned) == "ended"; });
  EXPECT_EQ(state_of(wanted), "running");
  EXPECT_EQ(stop(kRoot, abandoned)->summary.ledger.written, 1U) << "its samples are kept";
}

TEST_F(SessionsTest, ARequestForTheSessionRenewsItsLease) {
  StartRequest request = everything();
  request.lease_ms = 3000;
  const std::string id = start(kRoot, request).value();
  const auto begin = std::chrono::steady_clock::now();
  run_until([&] {
    EXPECT_EQ(sessions().session(kRoot, id)->state, "running");
    return std::chrono::steady_clock::now() - begin > 5s;
  });
}

TEST_F(SessionsTest, EndsASessionWhoseTargetsHaveEnded) {
  StartRequest request;
  request.target.pids = {static_cast<std::uint32_t>(::getpid())};
  const std::string id = start(kRoot, request).value();
  source_.take(sample_at(1), 0);
  source_.slots[0]->has_targets = false;
  EXPECT_FALSE(sessions().session(kRoot, id)->targets_alive);
  run_until([&] { return sessions().session(kRoot, id)->state == "ended"; });
  EXPECT_EQ(stop(kRoot, id)->summary.ledger.written, 1U);
}

TEST_F(SessionsTest, AStartIsAnsweredWhenTheProcessesOfItsTargetAreAdded) {
  source_.calls_until_begun = 5;
  ASSERT_TRUE(start(kRoot, everything()));
  EXPECT_EQ(source_.calls_until_begun, 0);
}

TEST_F(SessionsTest, AStartWhoseProcessesAreNotThereLeavesNoSession) {
  StartRequest request;
  request.target.pids = {static_cast<std::uint32_t>(::getpid())};
  source_.not_begun = fail(ErrorCode::kNotFound, "no such process 4711");
  const auto failed = start(kRoot, request);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "no such process 4711");
  EXPECT_THAT(sessions().sessions(kRoot), IsEmpty());
  source_.not_begun.reset();
  const std::string id = start(kRoot, request).value();
  EXPECT_TRUE(stop(kRoot, id)) << "its slot can be used again";
}

TEST_F(SessionsTest, ASessionThatIsStoppedBeforeItHasBegunIsStored) {
  source_.calls_until_begun = 1'000'000;
  std::optional<Result<std::string>> started;
  boost::asio::co_spawn(
      io_, sessions().start(kRoot, everything()),
      [&started](const std::exception_ptr&, Result<std::string> id) { started = std::move(id); });
  run_until([this] { return sessions().sessions(kRoot).size() == 1; });
  const std::string id = sessions().sessions(kRoot)[0].session;
  EXPECT_TRUE(stop(kRoot, id));
  run_until([&] { return started.has_value(); });
  EXPECT_TRUE(*started);
}

TEST_F(SessionsTest, DrainsOnlyWhileASessionRuns) {
  io_.run_for(300ms);
  EXPECT_EQ(source_.drains, 0);
  const std::string id = start(kRoot, everything()).value();
  run_until([this] { return source_.drains >= 3; });
  ASSERT_TRUE(stop(kRoot, id));
  const int after = source_.drains;
  io_.restart();
  io_.run_for(300ms);
  EXPECT_LE(source_.drains, after + 1);
}

TEST_F(SessionsTest, StoresRunningSessionsAtTheEndAndFindsThemAfterARestart) {
  const std::string id = start(kRoot, everything()).value();
  source_.take(sample_at(1), 0);
  close();
  open();
  ASSERT_THAT(sessions().sessions(kRoot), SizeIs(1));
  EXPECT_EQ(sessions().sessions(kRoot)[0].state, "ended");
  const Result<ResultInfo> result = stop(kRoot, id);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->summary.ledger.written, 1U);
}

TEST_F(SessionsTest, StoresThoseOfPrivilegedCallersFirstAtTheEnd) {
  constexpr std::size_t kOfEach = 4;
  std::set<std::string> of_root;
  for (std::size_t i = 0; i < kOfEach; ++i) {
    of_root.insert(start(kRoot, everything()).value());
    start(kAlice, test::by_comm("x")).value();
  }
  std::set<std::string> stored;
  std::vector<bool> order;  // whether the result is root's
  {
    // A result has its name when the directory is synced.
    const test::FsyncWatch watch([&](const std::string& path) {
      if (path != directory()) return;
      for (const auto& entry : std::filesystem::directory_iterator(directory())) {
        const std::string name = entry.path().filename();
        if (name.front() != '.' && stored.insert(name).second)
          order.push_back(of_root.contains(name));
      }
    });
    close();
  }
  ASSERT_THAT(order, SizeIs(2 * kOfEach));
  const std::vector<bool> first(order.begin(), order.begin() + kOfEach);
  EXPECT_THAT(first, Each(true));
}

// The first result of users waits for the disk until root has those that it asked for.
TEST_F(SessionsTest, ACallerWithPrivilegesDoesNotWaitForTheResultsOfUsers) {
  const std::string slow = start(kAlice, test::by_comm("x")).value();
  const std::string dumped = start(kAlice, test::by_comm("x")).value();
  const std::string stopped = start(kAlice, test::by_comm("x")).value();
  std::atomic<bool> is_writing = false;
  std::promise<void> root_has_all;
  const std::shared_future<void> may_end = root_has_all.get_future().share();
  const test::FsyncWatch watch([&](const std::string&) {
    if (!is_writing.exchange(true)) may_end.wait_for(kHang);
  });
  std::optional<Result<ResultInfo>> of_alice;
  begin(&Sessions::stop, kAlice, slow, of_alice);
  run_until([&] { return is_writing.load(); });
  const Result<ResultInfo> dump_of_root = dump(kRoot, dumped);
  const Result<ResultInfo> stop_of_root = stop(kRoot, stopped);
  EXPECT_TRUE(dump_of_root) << dump_of_root.error().message;
  EXPECT_TRUE(stop_of_root) << stop_of_root.error().message;
  EXPECT_FALSE(of_alice);
  root_has_all.set_value();
  run_until([&] { return of_alice.has_value(); });
  EXPECT_TRUE(*of_alice) << of_alice->error().message;
}

TEST_F(SessionsTest, ReportsAnErrorOfTheSource) {
  source_.error = fail(ErrorCode::kNotFound, "no such process 1234");
  EXPECT_EQ(start(kRoot, everything()).error().message, "no such process 1234");
  EXPECT_THAT(sessions().sessions(kRoot), IsEmpty());
}

TEST_F(SessionsTest, RefusesAnInvalidRequest) {
  StartRequest unknown_event = everything();
  unknown_event.event = "cpu-clok";
  StartRequest both = everything();
  both.frequency_hz = 99;
  both.period = 1000;
  StartRequest absurd = everything();
  absurd.frequency_hz = 1'000'000'000;
  for (const StartRequest& request : {StartRequest{}, unknown_event, both, absurd}) {
    const Result<std::string> refused = start(kRoot, request);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument) << refused.error().message;
  }
  EXPECT_THAT(sessions().sessions(kRoot), IsEmpty());
}

TEST_F(SessionsTest, ReportsThatItsDirectoryIsMissingAndContinuesOnceItIsBack) {
  const std::string stored = start(kRoot, everything()).value();
  ASSERT_TRUE(stop(kRoot, stored));
  const std::string id = start(kRoot, everything()).value();
  source_.take(sample_at(1), 0);
  std::filesystem::remove_all(directory());
  EXPECT_EQ(stop(kRoot, stored).error().code, ErrorCode::kIo);
  EXPECT_EQ(stop(kRoot, id).error().code, ErrorCode::kIo);
  std::filesystem::create_directory(directory());
  const Result<ResultInfo> result = stop(kRoot, id);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->summary.ledger.written, 1U);
  EXPECT_TRUE(sessions().open_result_file(kRoot, id, "unknown.7.prof"));
  EXPECT_EQ(stop(kRoot, stored).error().code, ErrorCode::kIo);
}

// A disk that is full until the test makes room.
class FullDiskSessionsTest : public SessionsTest {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(directory());
    ASSERT_EQ(::mount("profd-test", directory().c_str(), "tmpfs", 0, "size=16k"), 0)
        << "needs root";
    open();
  }
  void TearDown() override {
    close();
    ::umount2(directory().c_str(), MNT_DETACH);
  }
  void make_room() {
    ASSERT_EQ(::mount("profd-test", directory().c_str(), "tmpfs", MS_REMOUNT, "size=16m"), 0);
  }
};

TEST_F(FullDiskSessionsTest, ReportsLostSamplesAtShutdown) {
  start(kRoot, everything()).value();
  for (std::uint64_t i = 0; i < 2000; ++i) source_.take(sample_at(i), 0);
  std::optional<bool> all_stored;
  const auto shut_down = [&] {
    all_stored.reset();
    boost::asio::co_spawn(
        io_, sessions().shut_down(),
        [&all_stored](const std::exception_ptr&, bool stored) { all_stored = stored; });
    run_until([&all_stored] { return all_stored.has_value(); });
  };
  shut_down();
  EXPECT_FALSE(*all_stored);
  make_room();
  shut_down();
  EXPECT_TRUE(*all_stored);
}

TEST_F(FullDiskSessionsTest, KeepsItsSamplesForAnotherTry) {
  const std::string id = start(kRoot, everything()).value();
  for (std::uint64_t i = 0; i < 2000; ++i) source_.take(sample_at(i), 0);
  const Result<ResultInfo> failed = stop(kRoot, id);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kIo);
  EXPECT_THAT(failed.error().message, HasSubstr("No space"));
  EXPECT_EQ(sessions().session(kRoot, id)->state, "ended");
  EXPECT_EQ(sessions().session(kRoot, id)->samples, 2000U);
  make_room();
  const Result<ResultInfo> result = stop(kRoot, id);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->summary.ledger.written, 2000U);
  EXPECT_EQ(result->summary.ledger.difference(), 0);
}

TEST_F(FullDiskSessionsTest, DropsSamplesThatCouldNotBeStoredWhenTheResultIsRemoved) {
  const std::string id = start(kRoot, everything()).value();
  for (std::uint64_t i = 0; i < 2000; ++i) source_.take(sample_at(i), 0);
  EXPECT_EQ(sessions().remove_result(kRoot, id).error().code, ErrorCode::kNotFound) << "it runs";
  ASSERT_FALSE(stop(kRoot, id));
  EXPECT_EQ(sessions().remove_result(kAlice, id).error().code, ErrorCode::kPermissionDenied);
  const Result<void> removed = sessions().remove_result(kRoot, id);
  EXPECT_TRUE(removed) << removed.error().message;
  EXPECT_THAT(sessions().sessions(kRoot), IsEmpty());
  run_until([this] { return source_.releases == 1; });
  make_room();
  EXPECT_EQ(stop(kRoot, id).error().code, ErrorCode::kNotFound);
}

TEST_F(SessionsTest, StartsNothingAtShutdown) {
  EXPECT_TRUE(run(sessions().shut_down()));
  const Result<std::string> refused = start(kRoot, everything());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_FALSE(source_.slots[0]);
}

class ShortKeepingSessionsTest : public SessionsTest {
 protected:
  static constexpr auto kKeep = 3s;
  ShortKeepingSessionsTest() : SessionsTest({.unprivileged_keep = kKeep}) {}
};

TEST_F(ShortKeepingSessionsTest, DropsDataThatCouldNotBeStoredWhenTheirTimeIsOver) {
  const std::string id = start(kAlice, test::by_comm("x")).value();
  source_.take(sample_at(1), 0);
  std::filesystem::remove_all(directory());
  EXPECT_EQ(stop(kAlice, id).error().code, ErrorCode::kIo);
  const auto ended = std::chrono::steady_clock::now();
  EXPECT_TRUE(sessions().session(kAlice, id));
  run_until([&] { return !sessions().session(kAlice, id); });
  const auto kept = std::chrono::steady_clock::now() - ended;
  EXPECT_GE(kept, kKeep - 1s);
  EXPECT_LT(kept, 2 * kKeep);
  run_until([this] { return source_.releases == 1; });
  std::filesystem::create_directory(directory());
}

}  // namespace
}  // namespace profd
