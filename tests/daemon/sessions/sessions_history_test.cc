// Exports as results of the daemon: whose they are, what they count as, and how they go.

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <gmock/gmock.h>

#include "daemon/sessions/sessions.h"
#include "tests/daemon/callers.h"
#include "tests/daemon/history/fabricated_windows.h"
#include "tests/daemon/local_parser.h"
#include "tests/daemon/samples/fake_source.h"

namespace profd {
namespace {

using namespace std::chrono_literals;
using test::kAlice;
using test::kBob;
using test::kRoot;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr auto kHang = 30s;

class SessionsHistoryTest : public testing::Test {
 protected:
  SessionsHistoryTest()
      : sessions_(io_, source_, aggregator_,
                  ResultStore::open(windows_.state() / "results").value(),
                  std::make_unique<test::LocalParser>()) {}

  void SetUp() override {
    const ProfileMapping object = windows_.add_object("work.so", {"hot"}, 0x400000);
    test::FabricatedProfile mine;
    mine.owner = ProcessOwner{.uid = kAlice.uid, .gid = kAlice.gid};
    mine.profile = test::profile_of({object}, {{{0x400010}, 3}});
    windows_.add(std::chrono::system_clock::time_point() + 24h, {mine});
    store_.emplace(windows_.open());
    sessions_.show_history(*store_, [] { return StatusInfo::Continuous{}; });
  }
  void TearDown() override {
    boost::asio::co_spawn(io_, sessions_.shut_down(), boost::asio::detached);
    io_.restart();
    io_.run_for(kHang);
  }

  Result<ResultInfo> export_as(const Caller& caller) {
    std::optional<Result<ResultInfo>> result;
    boost::asio::co_spawn(io_, sessions_.export_windows(caller, {}),
                          [&](const std::exception_ptr& problem, Result<ResultInfo> got) {
                            if (problem) std::rethrow_exception(problem);
                            result.emplace(std::move(got));
                          });
    io_.restart();
    const auto end = std::chrono::steady_clock::now() + kHang;
    while (!result && std::chrono::steady_clock::now() < end) io_.run_one_for(100ms);
    return std::move(result.value());
  }

  boost::asio::io_context io_;
  test::FabricatedWindows windows_;
  Aggregator aggregator_;
  test::FakeSource source_{aggregator_};
  Sessions sessions_;
  std::optional<WindowStore> store_;
};

TEST_F(SessionsHistoryTest, AnExportIsItsCallersAlone) {
  const auto result = export_as(kAlice);
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_THAT(result->summary.profiles, SizeIs(1));
  const std::string path = result->summary.profiles[0].path;
  EXPECT_TRUE(sessions_.open_result_file(kAlice, result->result, path));
  EXPECT_TRUE(sessions_.open_result_file(kRoot, result->result, path));
  EXPECT_EQ(sessions_.open_result_file(kBob, result->result, path).error().code,
            ErrorCode::kPermissionDenied);
  EXPECT_EQ(sessions_.remove_result(kBob, result->result).error().code,
            ErrorCode::kPermissionDenied);
  EXPECT_TRUE(sessions_.remove_result(kAlice, result->result));
}

TEST_F(SessionsHistoryTest, AnExportIsNoSession) {
  ASSERT_TRUE(export_as(kAlice));
  EXPECT_THAT(sessions_.sessions(kAlice), IsEmpty());
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
  ASSERT_TRUE(sessions_.remove_result(kAlice, first));
  EXPECT_TRUE(export_as(kAlice));
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
  const auto started = sessions_.start(kRoot, request);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(started.error().message, HasSubstr("profd-test-none.service"));
  EXPECT_THAT(sessions_.sessions(kRoot), IsEmpty());
}

}  // namespace
}  // namespace profd
