// Exports as results of the daemon: their owners, and the limits that they count against.

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <gmock/gmock.h>

#include "tests/daemon/callers.h"
#include "tests/daemon/sessions/sessions_fixture.h"

namespace profd {
namespace {

using namespace std::chrono_literals;
using test::kAlice;
using test::kBob;
using test::kRoot;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class SessionsHistoryTest : public test::SessionsTest {
 protected:
  void SetUp() override {
    test::NamedProcess mine;
    mine.owner = ProcessOwner{.uid = kAlice.uid, .gid = kAlice.gid};
    mine.stacks = {{{"hot"}, 3}};
    windows_.add(std::chrono::system_clock::time_point() + 24h, {mine});
    open();
  }

  Result<ResultInfo> export_as(const Caller& caller) {
    return run(sessions().export_windows(caller, {}));
  }
};

TEST_F(SessionsHistoryTest, AnExportBelongsToItsCallerAlone) {
  const auto result = export_as(kAlice);
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_THAT(result->summary.profiles, SizeIs(1));
  const std::string path = result->summary.profiles[0].path;
  EXPECT_TRUE(sessions().open_result_file(kAlice, result->result, path));
  EXPECT_TRUE(sessions().open_result_file(kRoot, result->result, path));
  EXPECT_EQ(sessions().open_result_file(kBob, result->result, path).error().code,
            ErrorCode::kPermissionDenied);
  EXPECT_EQ(sessions().remove_result(kBob, result->result).error().code,
            ErrorCode::kPermissionDenied);
  EXPECT_TRUE(sessions().remove_result(kAlice, result->result));
}

TEST_F(SessionsHistoryTest, AnExportIsNoSession) {
  ASSERT_TRUE(export_as(kAlice));
  EXPECT_THAT(sessions().sessions(kAlice), IsEmpty());
}

TEST_F(SessionsHistoryTest, ExportsCountAsDumps) {
  std::string first;
  for (std::size_t i = 0; i < SessionLimits().unprivileged_max_dumps; ++i) {
    const auto result = export_as(kAlice);
    ASSERT_TRUE(result) << result.error().message;
    if (first.empty()) first = result->result;
  }
  const auto over = export_as(kAlice);
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, ErrorCode::kTooLarge);
  EXPECT_TRUE(export_as(kRoot));
  ASSERT_TRUE(sessions().remove_result(kAlice, first));
  EXPECT_TRUE(export_as(kAlice));
}

// Each takes memory until it ends.
TEST_F(SessionsHistoryTest, OnlySomeExportsOfUsersRunAtOnceAndTheOthersWait) {
  constexpr uid_t kUsers = 12;
  constexpr uid_t kFirst = 4001;
  std::vector<std::optional<Result<ResultInfo>>> answers(kUsers);
  for (uid_t i = 0; i < kUsers; ++i) {
    const Caller caller{.uid = kFirst + i, .gid = kFirst + i, .pid = 2, .privileged = false};
    boost::asio::co_spawn(io_, sessions().export_windows(caller, {}),
                          [&answer = answers[i]](const std::exception_ptr&,
                                                 Result<ResultInfo> result) { answer = result; });
  }
  std::size_t most = 0;
  run_until([&] {
    std::size_t active = 0;
    for (uid_t i = 0; i < kUsers; ++i) active += history().is_busy_for(kFirst + i) ? 1 : 0;
    most = std::max(most, active);
    return std::ranges::all_of(answers, [](const auto& answer) { return answer.has_value(); });
  });
  EXPECT_GT(most, 1U) << "a small one passes a large one";
  EXPECT_LE(most, 4U);
  EXPECT_TRUE(*answers.front()) << answers.front()->error().message;
}

TEST_F(SessionsHistoryTest, AUserHasOneExportAtATimeAlsoWhileItWaits) {
  std::vector<std::optional<Result<ResultInfo>>> answers(2);
  for (auto& answer : answers) {
    boost::asio::co_spawn(
        io_, sessions().export_windows(kAlice, {}),
        [&answer](const std::exception_ptr&, Result<ResultInfo> result) { answer = result; });
  }
  run_until([&] {
    return std::ranges::all_of(answers, [](const auto& answer) { return answer.has_value(); });
  });
  EXPECT_TRUE(*answers[0]);
  ASSERT_FALSE(*answers[1]);
  EXPECT_EQ(answers[1]->error().code, ErrorCode::kBusy);
}

TEST_F(SessionsHistoryTest, AnExportSurvivesARestart) {
  const auto result = export_as(kAlice);
  ASSERT_TRUE(result);
  const auto again = ResultStore::open(windows_.state() / "results");
  ASSERT_TRUE(again);
  const StoredResult* stored = again->find(result->result);
  ASSERT_NE(stored, nullptr);
  EXPECT_TRUE(stored->is_dump);
  EXPECT_EQ(stored->session.uid, kAlice.uid);
  EXPECT_EQ(stored->info.summary, result->summary);
}

TEST_F(SessionsHistoryTest, ASessionOfAUnitThatDoesNotRunIsNotStarted) {
  StartRequest request;
  request.target.units = {"profd-test-none.service"};
  const auto started = start(kRoot, request);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(started.error().message, HasSubstr("profd-test-none.service"));
  EXPECT_THAT(sessions().sessions(kRoot), IsEmpty());
}

}  // namespace
}  // namespace profd
