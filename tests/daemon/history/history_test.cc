#include "daemon/history/history.h"

#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <gmock/gmock.h>

#include "formats/api/session_summary.h"
#include "formats/base/gzip.h"
#include "tests/daemon/history/history_fixture.h"

namespace profd {
namespace {

using std::filesystem::path;
using test::kAlice;
using test::kMinuteMs;
using test::kNoHistoryLimit;
using test::kRoot;
using test::kStartMs;
using test::minute;
using test::NamedProcess;
using test::read_file;
using test::WindowHistoryTest;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::UnorderedElementsAre;

constexpr ProcessOwner kOfAlice{.uid = 4001, .gid = 4001};
constexpr ProcessOwner kOfBob{.uid = 4002, .gid = 4002};

TimeRange minutes(std::uint64_t first, std::uint64_t count) {
  return {.since_ms = kStartMs + first * kMinuteMs,
          .until_ms = kStartMs + (first + count) * kMinuteMs};
}

TEST_F(WindowHistoryTest, OthersSeeTheirOwnProcessesAndNoKernelAddress) {
  NamedProcess mine = hot(7, "mine", 0);
  mine.owner = kOfAlice;
  mine.stacks = {{{"k:do_idle", "k:secret", "hot"}, 2}, {{"k:schedule", "hot"}, 3}, {{"hot"}, 1}};
  NamedProcess bobs = hot(8, "bobs", 9);
  bobs.owner = kOfBob;
  NamedProcess other_group = hot(10, "group", 9);
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
  const std::string named = read_file(directory_of(*result) / kNamedProfile);
  for (const std::string& bytes : {unpack_gzip(named, 1 << 20).value(), named}) {
    for (const char* foreign : {"do_idle", "secret", "schedule", "bobs", "roots", "group"}) {
      EXPECT_THAT(bytes, Not(HasSubstr(foreign)));
    }
  }
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

// One window of three owners; what Alice gets is searched for every text of the others.
TEST_F(WindowHistoryTest, AWindowsFileHasNothingOfAnotherUser) {
  NamedProcess mine{.pid = 71,
                    .comm = "alice_comm",
                    .owner = kOfAlice,
                    .user = kOfAlice.uid,
                    .cgroup = "/system.slice/alice.service",
                    .file = "/home/alice/program",
                    .stacks = {{{"k:kernel_secret", "alice_function"}, 6}}};
  NamedProcess bobs{.pid = 72,
                    .comm = "bob_comm",
                    .owner = kOfBob,
                    .user = kOfBob.uid,
                    .cgroup = "/system.slice/bob.service",
                    .file = "/home/bob/private",
                    .stacks = {{{"bob_function", "shared_name"}, 5}}};
  NamedProcess roots{.pid = 73,
                     .comm = "root_comm",
                     .cgroup = "/system.slice/root.service",
                     .file = "/root/hidden",
                     .stacks = {{{"root_function", "k:kernel_other"}, 9}}};
  const std::string name = windows_.add(minute(0), {mine, bobs, roots}, {{"ring_full", 50}});
  open();
  const auto bytes = run(history_->read_window(kAlice, name));
  ASSERT_TRUE(bytes) << bytes.error().message;
  for (const std::string& searched : {*bytes, unpack_gzip(*bytes, 1 << 20).value()}) {
    for (const char* foreign : {"bob", "root", "private", "hidden", "kernel_secret", "kernel_other",
                                "ring_full", "4002", "shared_name"}) {
      EXPECT_THAT(searched, Not(HasSubstr(foreign)));
    }
  }
  const auto file = WindowFile::decode(*bytes);
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_THAT(file->summary().profiles, SizeIs(1));
  EXPECT_EQ(file->summary().profiles[0].pid, 71u);
  EXPECT_EQ(file->summary().ledger.taken, 6u);
  EXPECT_EQ(file->record().profiles.at(0).owner, kOfAlice);
  const test::ScratchDirectory scratch;
  const test::Report report = test::go_report(scratch.write("mine.pb.gz", *bytes));
  EXPECT_EQ(report.total, 6u);
  EXPECT_EQ(report.rows.at("[kernel]").flat, 6u);
  EXPECT_EQ(report.rows.at("alice_function").cumulative, 6u);
}

TEST_F(WindowHistoryTest, PrivilegedCallersGetAWindowsFileAsItIs) {
  const std::string name = windows_.add(minute(0), {hot(7, "work", 1)});
  open();
  EXPECT_EQ(run(history_->read_window(kRoot, name)).value(),
            read_file(windows_.windows() / (name + ".pb.gz")));
  for (const auto& [caller, window] :
       {std::pair(kRoot, std::string("20260102T000000Z")), std::pair(kRoot, std::string("..")),
        std::pair(kAlice, name)}) {
    const auto none = run(history_->read_window(caller, window));
    ASSERT_FALSE(none) << window;
    EXPECT_EQ(none.error().code, ErrorCode::kNotFound) << window;
  }
}

TEST_F(WindowHistoryTest, AFileThatProfdDidNotWriteIsNoWindow) {
  const std::string name = windows_.add(minute(0), {hot(7, "work", 1)});
  open();
  const std::string foreign = window_name(minute(1));
  std::ofstream(windows_.windows() / (foreign + ".pb.gz")) << "junk";
  EXPECT_EQ(run(history_->read_window(kRoot, foreign)).error().code, ErrorCode::kNotFound);
  std::ofstream(windows_.windows() / (name + ".pb.gz")) << "junk";
  EXPECT_EQ(run(history_->read_window(kRoot, name)).error().code, ErrorCode::kMalformed);
}

TEST_F(WindowHistoryTest, TheLastWindowIsNoneOfTheFuture) {
  constexpr int kMinutesOfTwentyYears = 20 * 366 * 24 * 60;
  windows_.add(minute(0), {hot(7, "old", 1)});
  const std::string last = windows_.add(minute(1), {hot(7, "new", 1)});
  windows_.add(minute(kMinutesOfTwentyYears), {hot(7, "future", 1)});
  open();
  EXPECT_EQ(run(history_->last(kRoot))->window, last);
}

TEST_F(WindowHistoryTest, NamesAfterAWindowAreWaitedFor) {
  using std::chrono_literals::operator""ms;
  const std::string first = windows_.add(minute(0), {hot(7, "work", 1)});
  const std::string second = windows_.add(minute(1), {hot(7, "work", 1)});
  open();
  bool is_wanted = true;
  const auto names_after = [&](const std::string& after, std::chrono::milliseconds patience) {
    return history_->names_after(
        kRoot, after, [&] { return is_wanted; }, patience);
  };
  EXPECT_THAT(run(names_after("", kHang))->windows, ElementsAre(first, second));
  EXPECT_THAT(run(names_after(first, kHang))->windows, ElementsAre(second));
  EXPECT_THAT(run(names_after(second, 1ms))->windows, IsEmpty());
  EXPECT_EQ(run(names_after("yesterday", kHang)).error().code, ErrorCode::kInvalidArgument);
  std::optional<WindowNames> later;
  boost::asio::co_spawn(
      io_, names_after(second, kHang),
      [&](const std::exception_ptr&, const Result<WindowNames>& names) { later = names.value(); });
  io_.restart();
  io_.run_for(10ms);
  EXPECT_FALSE(later);
  store_->adopt(WindowInfo{.name = window_name(minute(2)), .start = minute(2), .end = minute(3)});
  io_.run_for(kHang);
  ASSERT_TRUE(later);
  EXPECT_THAT(later->windows, ElementsAre(window_name(minute(2))));

  std::optional<WindowNames> unwanted;
  boost::asio::co_spawn(io_, names_after(later->windows[0], kHang),
                        [&](const std::exception_ptr&, const Result<WindowNames>& names) {
                          unwanted = names.value();
                        });
  io_.restart();
  io_.run_for(10ms);
  EXPECT_FALSE(unwanted);
  is_wanted = false;
  io_.run_for(2 * WindowHistory::kCheck);
  EXPECT_TRUE(unwanted);
}

TEST_F(WindowHistoryTest, NamesOfRemovedWindowsAreAnAnswerToo) {
  const std::string first = windows_.add(minute(0), {hot(7, "work", 1)});
  const std::string second = windows_.add(minute(1), {hot(7, "work", 1)});
  open();
  (void)store_->evict(
      {.max_age = std::chrono::hours(1), .max_bytes = 0, .hours_max_age = std::chrono::hours(1)},
      minute(2));
  const auto names = run(history_->names_after(
      kRoot, first, [] { return true; }, kHang));
  ASSERT_TRUE(names);
  EXPECT_THAT(names->windows, IsEmpty());
  EXPECT_THAT(names->removed, ElementsAre(second));
}

TEST_F(WindowHistoryTest, AUserGetsTheOldestNames) {
  constexpr std::size_t kMost = WindowHistory::kMaxNamesOfUser;
  open();
  for (int i = 0; i < static_cast<int>(kMost) + 2; ++i) {
    store_->adopt(
        WindowInfo{.name = window_name(minute(i)), .start = minute(i), .end = minute(i + 1)});
  }
  const auto names_for = [&](const Caller& caller, const std::string& after) {
    return run(history_->names_after(
                   caller, after, [] { return true; }, kHang))
        ->windows;
  };
  EXPECT_EQ(names_for(kRoot, "").size(), kMost + 2);
  const std::vector<std::string> first = names_for(test::kAlice, "");
  ASSERT_EQ(first.size(), kMost);
  EXPECT_EQ(first.front(), window_name(minute(0)));
  EXPECT_EQ(first.back(), window_name(minute(static_cast<int>(kMost) - 1)));
  EXPECT_EQ(names_for(test::kAlice, first.back()).size(), 2U);
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
    EXPECT_THAT(error.hint, HasSubstr("continuous.enabled = true"));
  }
}

TEST_F(WindowHistoryTest, NoWindowsOfBlocksHaveAHintOfTheirOwn) {
  open();
  WindowHistory blocks(
      *store_, *workers_, owners_, [this] { return status_; }, true);
  const Error error = run(blocks.list(kRoot, {})).error();
  EXPECT_EQ(error.code, ErrorCode::kNotFound);
  EXPECT_THAT(error.hint, HasSubstr("off_cpu = true"));
  status_.enabled = true;
  EXPECT_THAT(run(blocks.list(kRoot, {})).error().message, HasSubstr("no windows yet"));
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

TEST_F(WindowHistoryTest, SubordinateUidsHaveOneRequestWithTheirUser) {
  constexpr uid_t kFirst = 100'000;
  std::ofstream(windows_.state() / "subuid") << kAlice.uid << ":" << kFirst << ":65536\n";
  for (int i = 0; i < 20; ++i) windows_.add(minute(i), {hot(7, "work", 1)});
  open();
  std::vector<std::optional<ErrorCode>> codes;
  const auto note = [&codes](const std::exception_ptr&, const Result<History>& history) {
    codes.push_back(history ? std::nullopt : std::optional(history.error().code));
  };
  for (const uid_t uid : {kAlice.uid, kFirst + 7, kFirst + 65'536}) {
    boost::asio::co_spawn(io_, history_->list({.uid = uid, .gid = 1}, {}), note);
  }
  io_.restart();
  io_.run_for(kHang);
  EXPECT_THAT(codes, UnorderedElementsAre(std::nullopt, ErrorCode::kBusy, std::nullopt));
}

// Later work is done before an export ends that takes more than one turn.
TEST_F(WindowHistoryTest, AnExportYieldsTheWorkerBetweenTurns) {
  NamedProcess deep = hot(7, "work", 1);
  for (int i = 0; i < 20'000; ++i) {
    deep.stacks.push_back({{"f" + std::to_string(i), "g" + std::to_string(i % 100)}, 1});
  }
  for (int i = 0; i < 4; ++i) windows_.add(minute(i), {deep});
  open();
  std::vector<std::string> order;
  const auto exported = [&](const std::exception_ptr&, const Result<StoredResult>& result) {
    order.emplace_back(result ? "export" : result.error().message);
  };
  const auto worked = [&](const std::exception_ptr&, const Result<bool>&) {
    order.emplace_back("other");
  };
  boost::asio::co_spawn(io_, history_->make_export(kRoot, {}, place(kNoHistoryLimit)), exported);
  boost::asio::co_spawn(
      io_, workers_->run(std::nullopt, [](CodeNaming&) -> Result<bool> { return true; }), worked);
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

// Three minutes of two processes of alice and one of bob; the hour began at 14:00, five minutes
// before minute(0).
std::vector<std::string> add_minutes_of_two_users(const test::FabricatedWindows& windows) {
  std::vector<std::string> names;
  for (int i = 0; i < 3; ++i) {
    NamedProcess mine{.pid = 7, .comm = "mine", .owner = kOfAlice, .file = "/home/alice/work"};
    mine.stacks = {{{"k:do_idle", "k:secret", "hot"}, 20}, {{"f" + std::to_string(i), "main"}, 3}};
    NamedProcess bobs{.pid = 8, .comm = "bobs", .owner = kOfBob, .file = "/home/bob/private"};
    bobs.stacks = {{{"bobs_function"}, 4}};
    names.push_back(windows.add(minute(i), {mine, bobs}));
  }
  return names;
}

TEST_F(WindowHistoryTest, AnExportOfAnHourWithoutWindowsIsThatOfItsWindows) {
  const std::vector<std::string> names = add_minutes_of_two_users(windows_);
  const auto of_windows = export_all(kRoot);
  ASSERT_TRUE(of_windows) << of_windows.error().message;
  (void)windows_.add_hour(minute(-5), names);
  for (const std::string& name : names) windows_.remove(name);
  (void)windows_.add(minute(60), {hot(9, "later", 5)});
  history_.reset();
  const auto of_hour = export_as(kRoot, {.range = minutes(0, 3), .target = {}});
  ASSERT_TRUE(of_hour) << of_hour.error().message;
  const auto report = [this](const StoredResult& result) {
    return test::go_report(directory_of(result) / kNamedProfile);
  };
  EXPECT_EQ(report(*of_hour).total, 81U);
  EXPECT_EQ(report(*of_hour).rows, report(*of_windows).rows);
  EXPECT_EQ(of_hour->info.summary.ledger, of_windows->info.summary.ledger);
  EXPECT_FALSE(of_hour->info.note);
  const auto both = export_all(kRoot);
  ASSERT_TRUE(both);
  EXPECT_EQ(both->info.summary.ledger.written, 86U);
}

TEST_F(WindowHistoryTest, AnExportSaysThatItHasMoreThanAPartOfAnHour) {
  const std::vector<std::string> names = add_minutes_of_two_users(windows_);
  (void)windows_.add_hour(minute(-5), names);
  for (const std::string& name : names) windows_.remove(name);
  const auto part = export_as(kRoot, {.range = minutes(1, 1), .target = {}});
  ASSERT_TRUE(part) << part.error().message;
  EXPECT_EQ(part->info.summary.ledger.written, 81U);
  EXPECT_EQ(part->info.summary.seconds, 180);
  ASSERT_TRUE(part->info.note);
  EXPECT_THAT(*part->info.note, HasSubstr("all of 2026-01-02T14:05:00Z to 2026-01-02T14:08:00Z"));
}

TEST_F(WindowHistoryTest, OthersGetTheirOwnProcessesOfAnHourAlone) {
  const std::vector<std::string> names = add_minutes_of_two_users(windows_);
  (void)windows_.add_hour(minute(-5), names);
  for (const std::string& name : names) windows_.remove(name);
  const auto result = export_all(kAlice);
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_THAT(result->info.summary.profiles, SizeIs(1));
  EXPECT_EQ(result->info.summary.ledger.written, 69U);
  const std::string unpacked =
      unpack_gzip(read_file(directory_of(*result) / kNamedProfile), 1 << 20).value();
  EXPECT_THAT(unpacked, HasSubstr("[kernel]"));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_of(*result))) {
    if (!entry.is_regular_file()) continue;
    for (const char* foreign : {"bob", "private", "secret", "do_idle"}) {
      EXPECT_THAT(read_file(entry.path()), Not(HasSubstr(foreign))) << entry.path();
      EXPECT_THAT(unpacked, Not(HasSubstr(foreign)));
    }
  }
}

TEST_F(WindowHistoryTest, ListsAnHourWhoseWindowsAreGone) {
  const std::vector<std::string> names = add_minutes_of_two_users(windows_);
  (void)windows_.add_hour(minute(-5), names);
  for (const std::string& name : names) windows_.remove(name);
  open();
  const auto last = run(history_->last(kRoot));
  ASSERT_TRUE(last) << last.error().message;
  EXPECT_EQ(last->samples, 81U);
  (void)windows_.add(minute(60), {hot(9, "later", 5)});
  open();
  const auto history = run(history_->list(kRoot, {}));
  ASSERT_TRUE(history) << history.error().message;
  ASSERT_THAT(history->windows, SizeIs(2));
  EXPECT_EQ(history->windows[0].samples, 81U);
  EXPECT_EQ(history->windows[0].seconds, 180);
  EXPECT_EQ(history->windows[1].samples, 5U);
  const auto alices = run(history_->list(kAlice, {}));
  ASSERT_TRUE(alices);
  EXPECT_EQ(alices->windows.at(0).samples, 69U);
  EXPECT_THAT(alices->windows.at(0).processes, SizeIs(1));
}

TEST_F(WindowHistoryTest, AProcessThatIsNamedByItsPidIsFoundInTheWindowsOfAnHour) {
  const std::string window = windows_.add(minute(0), {hot(7, "few", 3), hot(8, "many", 30)});
  (void)windows_.add_hour(minute(-5), {window});
  ExportRequest request;
  request.range = minutes(0, 1);
  request.target.pids = {7};
  const auto result = export_as(kRoot, request);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->info.summary.ledger.written, 3U);
}

}  // namespace
}  // namespace profd
