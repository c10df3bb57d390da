#include "daemon/window_history.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>

#include "daemon/history_export.h"
#include "formats/gperftools_reader.h"
#include "tests/daemon/fabricated_windows.h"
#include "tests/daemon/local_parser.h"

namespace profd {
namespace {

using namespace std::chrono_literals;
using std::filesystem::path;
using test::FabricatedProfile;
using test::profile_of;
using test::read_file;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::UnorderedElementsAre;

const Caller kRoot{.uid = 0, .gid = 0, .pid = 1, .trusted = true};
const Caller kAlice{.uid = 4001, .gid = 4001, .pid = 2, .trusted = false};
constexpr ProcessOwner kOfAlice{.uid = 4001, .gid = 4001};
constexpr ProcessOwner kOfBob{.uid = 4002, .gid = 4002};

// 2026-01-02 14:05:00 UTC
constexpr std::uint64_t kStartMs = 1'767'362'700'000;
constexpr std::uint64_t kMinuteMs = 60'000;
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 40;
constexpr std::uint64_t kText = 0x555500001000;

std::chrono::system_clock::time_point minute(int number) {
  return std::chrono::system_clock::time_point(std::chrono::milliseconds(kStartMs)) + number * 1min;
}

TimeRange minutes(std::uint64_t first, std::uint64_t count) {
  return {.since_ms = kStartMs + first * kMinuteMs,
          .until_ms = kStartMs + (first + count) * kMinuteMs};
}

std::string pid_and_comm(const ProfileSummary& profile) {
  return profile.comm + "." + std::to_string(profile.pid);
}

class WindowHistoryTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(results());
    work_ = windows_.add_object("work.so", {"hot", "warm", "cold"}, kText);
  }

  [[nodiscard]] std::string results() const { return windows_.state() / "results"; }

  // A process that was `hot` for so many samples, called by `warm`.
  [[nodiscard]] FabricatedProfile hot(std::uint32_t pid, const std::string& comm,
                                      std::uint64_t samples) const {
    return {.pid = pid,
            .comm = comm,
            .owner = std::nullopt,
            .cgroup = "",
            .profile = profile_of({work_}, {{{kText + 0x10, kText + 0x110}, samples}})};
  }

  void open(std::unique_ptr<Parser> parser = std::make_unique<test::LocalParser>()) {
    store_.emplace(windows_.open());
    worker_.emplace(std::move(parser));
    history_.emplace(*store_, *worker_, [this] { return status_; });
  }

  template <class T>
  T run(boost::asio::awaitable<T> operation) {
    std::optional<T> value;
    boost::asio::co_spawn(io_, std::move(operation), [&](const std::exception_ptr& problem, T got) {
      if (problem) std::rethrow_exception(problem);
      value.emplace(std::move(got));
    });
    io_.restart();
    io_.run_for(60s);
    return std::move(value.value());
  }

  Result<StoredResult> export_as(const Caller& caller, const ExportRequest& request,
                                 std::uint64_t max_bytes = kNoLimit) {
    if (!history_) open();
    return run(history_->make_export(caller, request, results(), max_bytes));
  }

  Result<StoredResult> export_all(const Caller& caller) { return export_as(caller, {}); }

  [[nodiscard]] path directory_of(const StoredResult& result) const {
    return path(results()) / result.info.result;
  }

  [[nodiscard]] Profile read_profile(const StoredResult& result, const std::string& name) const {
    return decode_gperftools(read_file(directory_of(result) / name)).value();
  }

  [[nodiscard]] std::vector<std::string> names_exported(const TargetRequest& target) {
    const auto result = export_as(kRoot, {.range = {}, .target = target});
    std::vector<std::string> names;
    if (!result) return {result.error().message};
    for (const ProfileSummary& profile : result->info.summary.profiles) {
      names.push_back(pid_and_comm(profile));
    }
    return names;
  }

  boost::asio::io_context io_;
  test::FabricatedWindows windows_;
  ProfileMapping work_;
  std::optional<WindowStore> store_;
  std::optional<StoreWorker> worker_;
  StatusInfo::Continuous status_;
  std::optional<WindowHistory> history_;
};

TEST_F(WindowHistoryTest, AnExportIsTheSumOfItsWindows) {
  windows_.add(minute(0), {hot(7, "work", 3), hot(8, "other", 1)}, {{"ring_full", 2}});
  windows_.add(minute(1), {hot(7, "work", 4)});
  windows_.add(minute(3), {hot(7, "work", 5)}, {{"ring_full", 1}, {"scratch", 1}});
  const auto result = export_all(kRoot);
  ASSERT_TRUE(result) << result.error().message;
  const SessionSummary& summary = result->info.summary;
  EXPECT_EQ(summary.session, result->info.result);
  EXPECT_EQ(summary.started, "2026-01-02T14:05:00Z");
  EXPECT_EQ(summary.seconds, 240);
  EXPECT_EQ(summary.period_us, 52'632u);
  EXPECT_EQ(summary.ledger.taken, 17u);
  EXPECT_EQ(summary.ledger.written, 13u);
  EXPECT_EQ(summary.ledger.lost, (CountsByReason{{"ring_full", 3}, {"scratch", 1}}));
  EXPECT_EQ(summary.ledger.difference(), 0);
  ASSERT_THAT(summary.profiles, SizeIs(2));
  const ProfileSummary& work = summary.profiles[0];
  EXPECT_EQ(work.path, "work.7.prof");
  EXPECT_EQ(work.samples, 12u);
  EXPECT_EQ(work.user_samples, 12u);
  EXPECT_EQ(work.stacks, 1u);
  EXPECT_EQ(read_profile(*result, "work.7.prof").samples(), 12u);
  EXPECT_EQ(read_profile(*result, "other.8.prof").samples(), 1u);
}

// Windows and objects go, the result moves: both pprofs still name what was hit.
TEST_F(WindowHistoryTest, AnExportNeedsNothingButItself) {
  windows_.add(minute(0), {hot(7, "work", 3)});
  windows_.add(minute(1), {hot(7, "work", 4)});
  const auto result = export_all(kRoot);
  ASSERT_TRUE(result) << result.error().message;
  std::filesystem::remove_all(windows_.state() / "windows");
  std::filesystem::remove_all(windows_.state() / "objects");
  const path moved = windows_.state() / "moved";
  std::filesystem::rename(directory_of(*result), moved);
  const test::ScratchDirectory fetched;
  const path profile =
      fetched.write("work.7.prof", with_build_dir(read_file(moved / "work.7.prof"), moved));
  for (const test::Report& report : {test::go_report(profile), test::perl_report(profile)}) {
    EXPECT_EQ(report.total, 7u);
    EXPECT_EQ(report.rows.at("hot").flat, 7u);
    EXPECT_EQ(report.rows.at("warm").cumulative, 7u);
  }
}

TEST_F(WindowHistoryTest, AnImageHoldsOnlyWhatTheExportedProfilesHit) {
  FabricatedProfile cold = hot(8, "cold", 1);
  cold.profile = profile_of({work_}, {{{kText + 0x210}, 1}});
  windows_.add(minute(0), {hot(7, "work", 3), cold});
  ExportRequest request;
  request.target.pids = {7};
  const auto result = export_as(kRoot, request);
  ASSERT_TRUE(result) << result.error().message;
  const auto functions = test::nm_functions(directory_of(*result) / "objects/work.so");
  EXPECT_TRUE(functions.contains("hot"));
  EXPECT_TRUE(functions.contains("warm"));
  EXPECT_FALSE(functions.contains("cold"));
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
  EXPECT_EQ(pid_and_comm(summary.profiles[0]), "mine.7");
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

TEST_F(WindowHistoryTest, RootSeesTheKernelsFunctionsThatWereHit) {
  const ProfileMapping image =
      windows_.add_kernel("kernel-6.1.so", {"do_idle", "not_hit"}, 0xffffffff92345000);
  FabricatedProfile work = hot(7, "work", 0);
  work.profile = profile_of({work_, image}, {{{image.start + 0x1010, kText + 0x10}, 2}});
  windows_.add(minute(0), {work});
  const auto result = export_all(kRoot);
  ASSERT_TRUE(result) << result.error().message;
  const auto functions = test::nm_functions(directory_of(*result) / "objects/kernel-6.1.so");
  EXPECT_TRUE(functions.contains("do_idle"));
  EXPECT_FALSE(functions.contains("not_hit"));
  EXPECT_EQ(read_profile(*result, "work.7.prof").mappings.back().start, image.start);
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

TEST_F(WindowHistoryTest, TargetsAreFoundByTheirCgroups) {
  const std::string id(64, 'a');
  const auto in = [this](std::uint32_t pid, const std::string& comm, const std::string& cgroup) {
    FabricatedProfile profile = hot(pid, comm, 1);
    profile.cgroup = cgroup;
    if (pid == 3) profile.user = 4001;
    return profile;
  };
  windows_.add(minute(0),
               {in(1, "a", "/system.slice/nginx.service"), in(2, "b", "/system.slice/x.service"),
                in(3, "c", "/user.slice/user-4001.slice/user@4001.service/nginx.service"),
                in(4, "d", "/system.slice/docker-" + id + ".scope"), in(5, "e", "")});
  const auto exported = [this](auto set) {
    TargetRequest target;
    set(target);
    return names_exported(target);
  };
  EXPECT_THAT(exported([](auto& t) { t.units = {"nginx.service"}; }), ElementsAre("a.1"));
  EXPECT_THAT(exported([](auto& t) { t.units = {"user@4001.service"}; }), ElementsAre("c.3"));
  EXPECT_THAT(exported([](auto& t) { t.containers = {"aaaa"}; }), ElementsAre("d.4"));
  EXPECT_THAT(exported([](auto& t) { t.cgroups = {"/system.slice"}; }),
              ElementsAre("a.1", "b.2", "d.4"));
  EXPECT_THAT(exported([](auto& t) { t.cgroups = {"/"}; }), SizeIs(4));
  EXPECT_THAT(exported([](auto& t) { t.uids = {4001}; }), ElementsAre("c.3"));
  EXPECT_THAT(exported([](auto& t) { t.pids = {2}, t.comms = {"e"}; }), ElementsAre("b.2", "e.5"));
  EXPECT_THAT(exported([](auto& t) { t.all = true; }), SizeIs(5));
}

TEST_F(WindowHistoryTest, ANameOfSeveralContainersIsRefused) {
  FabricatedProfile one = hot(1, "a", 1);
  one.cgroup = "/docker/" + std::string(64, 'a');
  FabricatedProfile two = hot(2, "b", 1);
  two.cgroup = "/docker/a" + std::string(63, 'b');
  windows_.add(minute(0), {one});
  windows_.add(minute(1), {two});
  ExportRequest request;
  request.target.containers = {"a"};
  const auto result = export_as(kRoot, request);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
}

TEST_F(WindowHistoryTest, WhatAProcessWasBeforeAnExecStaysApart) {
  windows_.add(minute(0), {hot(7, "sh", 1), hot(7, "work", 2)});
  windows_.add(minute(1), {hot(7, "work", 3)});
  const auto result = export_all(kRoot);
  ASSERT_TRUE(result);
  EXPECT_EQ(read_profile(*result, "sh.7.prof").samples(), 1u);
  EXPECT_EQ(read_profile(*result, "work.7.prof").samples(), 5u);
}

TEST_F(WindowHistoryTest, ADamagedProfileIsLostByItsNameAndNothingElseIs) {
  const std::string name = windows_.add(minute(0), {hot(7, "work", 3), hot(8, "other", 2)});
  windows_.add(minute(1), {hot(7, "work", 4)});
  const path damaged = windows_.state() / "windows" / name / "work.7.0.prof";
  std::filesystem::resize_file(damaged, std::filesystem::file_size(damaged) - 1);
  const auto result = export_all(kRoot);
  ASSERT_TRUE(result);
  const SessionLedger& ledger = result->info.summary.ledger;
  EXPECT_EQ(ledger.written, 6u);
  EXPECT_EQ(ledger.lost, (CountsByReason{{"unreadable", 3}}));
  EXPECT_EQ(ledger.difference(), 0);
}

TEST_F(WindowHistoryTest, AWindowThatIsGoneOrDamagedIsLeftOut) {
  const std::string gone = windows_.add(minute(0), {hot(7, "work", 3)});
  const std::string damaged = windows_.add(minute(1), {hot(7, "work", 4)});
  windows_.add(minute(2), {hot(7, "work", 5)});
  open();
  std::filesystem::remove_all(windows_.state() / "windows" / gone);
  std::filesystem::resize_file(windows_.state() / "windows" / damaged / kWindowSummaryFile, 10);
  const auto result = export_all(kRoot);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->info.summary.ledger.written, 5u);
  EXPECT_EQ(result->info.summary.seconds, 60);
  EXPECT_THAT(run(history_->list(kRoot, {}))->windows, SizeIs(1));
}

TEST_F(WindowHistoryTest, AnObjectThatIsGoneLeavesItsFramesWithoutNames) {
  windows_.add(minute(0), {hot(7, "work", 3)});
  open();
  std::filesystem::remove_all(windows_.state() / "objects");
  const auto result = export_all(kRoot);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(read_profile(*result, "work.7.prof").mappings[0].path, "[work.so]");
}

TEST_F(WindowHistoryTest, TooMuchForTheMemoryIsRefusedAndLeavesNothing) {
  windows_.add(minute(0), {hot(7, "work", 3)});
  const auto result = export_as(kRoot, {}, 100);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kTooLarge);
  EXPECT_TRUE(std::filesystem::is_empty(results()));
}

TEST_F(WindowHistoryTest, AFinishedExportLeavesNoLinksBehind) {
  windows_.add(minute(0), {hot(7, "work", 3)});
  const auto result = export_all(kRoot);
  ASSERT_TRUE(result);
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(results())) {
    names.push_back(entry.path().filename());
  }
  EXPECT_THAT(names, ElementsAre(result->info.result));
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

TEST_F(WindowHistoryTest, AnExportThatMatchesNothingIsNoneAndLeavesNothing) {
  windows_.add(minute(0), {hot(7, "work", 1)});
  TargetRequest no_cgroup;
  no_cgroup.cgroups = {"/system.slice/x.servic"};
  TargetRequest no_comm;
  no_comm.comms = {"wor"};
  for (const TargetRequest& target : {no_cgroup, no_comm}) {
    const auto result = export_as(kRoot, {.range = {}, .target = target});
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::kNotFound);
    EXPECT_EQ(result.error().message, "no process matched");
    EXPECT_NE(result.error().hint, "");
  }
  const Caller stranger{.uid = 4444, .gid = 4444, .pid = 9, .trusted = false};
  const auto nothing_seen = export_all(stranger);
  ASSERT_FALSE(nothing_seen);
  EXPECT_EQ(nothing_seen.error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(std::filesystem::is_empty(results()));
}

TEST_F(WindowHistoryTest, SaysWhyThereIsNoWindow) {
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

TEST_F(WindowHistoryTest, ACallerWithoutRightsHasOneRequestAtATime) {
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
  io_.run_for(60s);
  EXPECT_THAT(codes,
              UnorderedElementsAre(std::nullopt, ErrorCode::kBusy, std::nullopt, std::nullopt));
  EXPECT_TRUE(run(history_->list(kAlice, {})));
}

// Reads objects for longer than a turn lasts, so that an export has two however fast the machine
// is.
class SlowParser final : public test::LocalParser {
 public:
  Result<ElfSummary> read_elf_summary(int fd) override {
    std::this_thread::sleep_for(WindowHistory::kTurn);
    return LocalParser::read_elf_summary(fd);
  }
};

// Work that comes later is done before an export ends that takes more than its turn.
TEST_F(WindowHistoryTest, AnExportLetsOthersWorkInBetween) {
  windows_.add(minute(0), {hot(7, "work", 1)});
  open(std::make_unique<SlowParser>());
  std::vector<std::string> order;
  const auto exported = [&](const std::exception_ptr&, const Result<StoredResult>& result) {
    order.emplace_back(result ? "export" : result.error().message);
  };
  const auto worked = [&](const std::exception_ptr&, bool) { order.emplace_back("other"); };
  boost::asio::co_spawn(io_, history_->make_export(kRoot, {}, results(), kNoLimit), exported);
  boost::asio::co_spawn(io_, worker_->run([](Parser&) { return true; }), worked);
  io_.restart();
  io_.run_for(60s);
  EXPECT_THAT(order, ElementsAre("other", "export"));
}

// However many windows a range has: after each there may be an end of the turn.
TEST_F(WindowHistoryTest, AnExportWhoseTimeIsOverReadsOneWindowMore) {
  ExportPlan plan;
  for (int i = 0; i < 30; ++i) plan.windows.push_back(windows_.add(minute(i), {hot(7, "work", 1)}));
  plan.windows_dir = windows_.state() / "windows";
  plan.objects_dir = windows_.objects();
  plan.results_dir = results();
  plan.caller = kRoot;
  plan.target.all = true;
  plan.max_bytes = kNoLimit;
  plan.result.info.result = "export";
  HistoryExport exported(std::move(plan));
  test::LocalParser parser;
  int turns = 0;
  for (Result<bool> done = false; !*done; ++turns) {
    done = exported.advance(parser, 0s);
    ASSERT_TRUE(done) << done.error().message;
  }
  EXPECT_GT(turns, 30);
  EXPECT_EQ(exported.take().info.summary.ledger.written, 30u);
}

TEST_F(WindowHistoryTest, AShutDownEndsWhatIsUnderWay) {
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
