#include "daemon/history/history.h"

#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <gmock/gmock.h>

#include "formats/api/session_summary.h"
#include "tests/daemon/history/history_fixture.h"

namespace profd {
namespace {

using std::filesystem::path;
using test::FabricatedProfile;
using test::kAlice;
using test::kMinuteMs;
using test::kNoHistoryLimit;
using test::kRoot;
using test::kStartMs;
using test::kText;
using test::minute;
using test::profile_of;
using test::WindowHistoryTest;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

constexpr ProcessOwner kOfAlice{.uid = 4001, .gid = 4001};
constexpr ProcessOwner kOfBob{.uid = 4002, .gid = 4002};

TimeRange minutes(std::uint64_t first, std::uint64_t count) {
  return {.since_ms = kStartMs + first * kMinuteMs,
          .until_ms = kStartMs + (first + count) * kMinuteMs};
}

TEST_F(WindowHistoryTest, OthersSeeTheirOwnProcessesAndNoKernelAddress) {
  const std::uint64_t kernel = 0xffffffff92345000;
  const ProfileMapping image = windows_.add_kernel("kernel.so", {"do_idle", "secret"}, kernel);
  const std::uint64_t folded = image.start + 0x1000;
  FabricatedProfile mine = hot(7, "mine", 0);
  mine.owner = kOfAlice;
  mine.profile = profile_of({work_, image}, {{{folded + 0x10, folded + 0x110, kText + 0x10}, 2},
                                             {{folded + 0x90, kText + 0x10}, 3},
                                             {{kText + 0x10}, 1}});
  FabricatedProfile bobs = hot(8, "bobs", 9);
  bobs.owner = kOfBob;
  FabricatedProfile other_group = hot(10, "group", 9);
  other_group.owner = ProcessOwner{.uid = 4001, .gid = 0};
  windows_.add(minute(0), {mine, bobs, hot(9, "roots", 9), other_group}, {{"ring_full", 5}});
  const auto result = export_all(kAlice);
  ASSERT_TRUE(result) << result.error().message;
  const SessionSummary& summary = result->info.summary;
  ASSERT_THAT(summary.profiles, SizeIs(1));
  EXPECT_EQ(summary.profiles[0].path, "mine.7.prof");
  EXPECT_EQ(summary.ledger.taken, 6u);
  EXPECT_EQ(summary.ledger.written, 6u);
  EXPECT_THAT(summary.ledger.lost, IsEmpty());
  const Profile profile = read_profile(*result, "mine.7.prof");
  EXPECT_THAT(profile.records(), SizeIs(2));
  for (const Profile::Record& record : profile.records()) {
    for (const std::uint64_t pc : profile.pcs(record)) {
      const bool is_kernel = unfold_kernel_address(pc) != pc;
      EXPECT_TRUE(!is_kernel || pc == fold_kernel_address(0xffffffff81000000)) << std::hex << pc;
    }
  }
  const auto functions = test::nm_functions(directory_of(*result) / "objects/kernel.so");
  EXPECT_TRUE(functions.contains("[kernel]"));
  EXPECT_FALSE(functions.contains("secret"));
  const auto history = run(history_->list(kAlice, {}));
  ASSERT_TRUE(history);
  ASSERT_THAT(history->windows, SizeIs(1));
  EXPECT_EQ(history->windows[0].samples, 6u);
  EXPECT_THAT(history->windows[0].lost, IsEmpty());
  ASSERT_THAT(history->windows[0].processes, SizeIs(1));
  EXPECT_EQ(history->windows[0].processes[0].pid, 7u);
  EXPECT_THAT(run(history_->last(kAlice))->processes, SizeIs(1));
  EXPECT_THAT(run(history_->last(kRoot))->processes, SizeIs(4));
}

TEST_F(WindowHistoryTest, ARangeHoldsTheWindowsThatShareTimeWithIt) {
  for (int i = 0; i < 4; ++i) windows_.add(minute(i), {hot(7, "work", 1)});
  struct Case {
    TimeRange range;
    std::uint64_t windows;
  };
  for (const Case& c : {Case{minutes(0, 4), 4},
                        {minutes(1, 2), 2},
                        {{kStartMs + 30'000, kStartMs + 90'000}, 2},
                        {{kStartMs + kMinuteMs - 1, kStartMs + kMinuteMs}, 1},
                        {{kStartMs + kMinuteMs - 5, kStartMs + 2 * kMinuteMs - 5}, 1},
                        {{kStartMs + kMinuteMs - 5'000, kStartMs + kMinuteMs + 5'000}, 2},
                        {{kStartMs + kMinuteMs, kStartMs + kMinuteMs + 1}, 1},
                        {{0, TimeRange::kEndMs}, 4}}) {
    const auto result = export_as(kRoot, {.range = c.range, .target = {}});
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(result->info.summary.ledger.written, c.windows);
    EXPECT_EQ(result->info.summary.seconds, 60.0 * static_cast<double>(c.windows));
  }
  for (const TimeRange& range : {TimeRange{0, kStartMs}, minutes(4, 10)}) {
    const auto result = export_as(kRoot, {.range = range, .target = {}});
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::kNotFound);
  }
}

TEST_F(WindowHistoryTest, ListsTheNewestWindowsWithTheHottestProcessesFirst) {
  for (int i = 0; i < 5; ++i) {
    windows_.add(minute(i), {hot(1, "a", 1), hot(2, "b", 114), hot(3, "c", 3)}, {{"ring_full", 1}});
  }
  open();
  const auto history = run(history_->list(kRoot, {.range = {}, .limit = 2}));
  ASSERT_TRUE(history);
  EXPECT_EQ(history->left_out, 3u);
  ASSERT_THAT(history->windows, SizeIs(2));
  EXPECT_EQ(history->windows[0].started, "2026-01-02T14:08:00Z");
  EXPECT_EQ(history->windows[1].started, "2026-01-02T14:09:00Z");
  EXPECT_EQ(history->windows[1].samples, 118u);
  EXPECT_EQ(history->windows[1].lost, (CountsByReason{{"ring_full", 1}}));
  EXPECT_EQ(history->windows[1].processes[0].comm, "b");
  EXPECT_NEAR(history->windows[1].processes[0].cpu_percent, 10.0, 0.01);  // 6 s of 60
}

TEST_F(WindowHistoryTest, ReportsWhyThereIsNoWindow) {
  open();
  status_.enabled = true;
  status_.window_seconds = 300;
  const Error early = run(history_->last(kRoot)).error();
  EXPECT_THAT(early.message, HasSubstr("is on"));
  EXPECT_THAT(early.hint, HasSubstr("300 s"));
  status_.failed = {{"no_space", 5}};
  const Error failing = run(history_->last(kRoot)).error();
  EXPECT_THAT(failing.message, HasSubstr("(failed: 5 no_space)"));
  EXPECT_THAT(failing.hint, HasSubstr("profctl doctor"));
}

TEST_F(WindowHistoryTest, NoWindowsAtAllHaveAHint) {
  open();
  for (const Error& error : {run(history_->last(kRoot)).error(),
                             run(history_->list(kRoot, {})).error(), export_all(kRoot).error()}) {
    EXPECT_EQ(error.code, ErrorCode::kNotFound);
    EXPECT_THAT(error.hint, HasSubstr("[continuous]"));
  }
}

TEST_F(WindowHistoryTest, AnUnprivilegedCallerHasOneRequestAtATime) {
  for (int i = 0; i < 20; ++i) windows_.add(minute(i), {hot(7, "work", 1)});
  open();
  std::vector<std::optional<ErrorCode>> codes;
  const auto note = [&codes](const std::exception_ptr&, const Result<History>& history) {
    codes.push_back(history ? std::nullopt : std::optional(history.error().code));
  };
  for (const Caller& caller : {kAlice, kAlice, kRoot, kRoot}) {
    boost::asio::co_spawn(io_, history_->list(caller, {}), note);
  }
  io_.restart();
  io_.run_for(kHang);
  EXPECT_THAT(codes,
              UnorderedElementsAre(std::nullopt, ErrorCode::kBusy, std::nullopt, std::nullopt));
  EXPECT_TRUE(run(history_->list(kAlice, {})));
}

// Reading an object takes longer than a turn, so that an export has two turns on any machine.
class SlowParser final : public test::LocalParser {
 public:
  Result<ElfSummary> read_elf_summary(int fd) override {
    std::this_thread::sleep_for(WindowHistory::kTurn);
    return LocalParser::read_elf_summary(fd);
  }
};

// Later work is done before an export ends that takes more than one turn.
TEST_F(WindowHistoryTest, AnExportYieldsTheWorkerBetweenTurns) {
  windows_.add(minute(0), {hot(7, "work", 1)});
  open(std::make_unique<SlowParser>());
  std::vector<std::string> order;
  const auto exported = [&](const std::exception_ptr&, const Result<StoredResult>& result) {
    order.emplace_back(result ? "export" : result.error().message);
  };
  const auto worked = [&](const std::exception_ptr&, const Result<bool>&) {
    order.emplace_back("other");
  };
  boost::asio::co_spawn(io_, history_->make_export(kRoot, {}, results(), kNoHistoryLimit),
                        exported);
  boost::asio::co_spawn(io_, worker_->run([](CodeNaming&) -> Result<bool> { return true; }),
                        worked);
  io_.restart();
  io_.run_for(kHang);
  EXPECT_THAT(order, ElementsAre("other", "export"));
}

TEST_F(WindowHistoryTest, AShutDownEndsActiveRequests) {
  for (int i = 0; i < 50; ++i) windows_.add(minute(i), {hot(7, "work", 1)});
  open();
  history_->shut_down();
  const auto result = export_all(kRoot);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(std::filesystem::is_empty(results()));
}

}  // namespace
}  // namespace profd
