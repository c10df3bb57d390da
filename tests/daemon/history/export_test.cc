#include "daemon/history/export.h"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "daemon/storage/result_store.h"
#include "formats/api/session_summary.h"
#include "formats/profile/gperftools_reader.h"
#include "formats/profile/gperftools_writer.h"
#include "formats/profile/pprof_merge.h"
#include "formats/profile/pprof_reader.h"
#include "formats/profile/pprof_writer.h"
#include "tests/daemon/callers.h"
#include "tests/daemon/history/named_windows.h"
#include "tests/daemon/storage/unpacked_result.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

using namespace std::chrono_literals;
using std::filesystem::path;
using test::kRoot;
using test::NamedProcess;
using test::NamedWindow;
using test::Row;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 40;

// 2026-01-02 14:05:00 UTC and so many minutes.
std::chrono::system_clock::time_point at_minute(int number) {
  return std::chrono::system_clock::time_point(1'767'362'700'000ms) + number * 1min;
}

class HistoryExportTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(windows_dir());
    std::filesystem::create_directories(results_dir());
  }

  [[nodiscard]] path windows_dir() const { return scratch_.path() / "windows"; }
  [[nodiscard]] path results_dir() const { return scratch_.path() / "results"; }
  [[nodiscard]] path file_of(const std::string& window) const {
    return windows_dir() / (window + ".pb.gz");
  }

  // A process that was in `hot` for so many samples, called by `warm`.
  static NamedProcess hot(std::uint32_t pid, const std::string& comm, std::uint64_t samples) {
    NamedProcess process;
    process.pid = pid;
    process.comm = comm;
    process.stacks = {{.functions = {"hot", "warm"}, .samples = samples}};
    return process;
  }

  std::string add(NamedWindow window, const std::vector<NamedProcess>& processes) {
    for (const NamedProcess& process : processes) window.add(process);
    files_.push_back({windows_dir(), window.write(windows_dir())});
    return files_.back().name;
  }

  std::string add(int at, const std::vector<NamedProcess>& processes,
                  const CountsByReason& lost = {}) {
    return add(NamedWindow(at_minute(at)).lose(lost), processes);
  }

  [[nodiscard]] ExportPlan plan(const Caller& caller, TargetRequest target = {},
                                std::uint64_t max_bytes = kNoLimit) const {
    ExportPlan plan;
    plan.results_dir = results_dir();
    plan.files = files_;
    plan.caller = caller;
    plan.target = std::move(target);
    plan.max_bytes = max_bytes;
    plan.result.info.result = "history-dump-00c0ffee";
    return plan;
  }

  static Result<StoredResult> run(ExportPlan plan) {
    HistoryExport whole(std::move(plan));
    for (Result<bool> done = false; !*done;) {
      done = whole.advance(10ms);
      if (!done) return done.error();
    }
    return whole.take();
  }

  void remove_result() const {
    std::filesystem::remove_all(results_dir() / "history-dump-00c0ffee");
    std::filesystem::remove_all(scratch_.path() / "unpacked");
  }

  [[nodiscard]] path in_result(const std::string& name) const {
    test::unpack(results_dir() / "history-dump-00c0ffee", scratch_.path() / "unpacked");
    return scratch_.path() / "unpacked" / name;
  }

  [[nodiscard]] Profile read_profile(const std::string& name) const {
    return decode_gperftools(test::read_file(in_result(name))).value();
  }

  [[nodiscard]] std::string unpacked_names() const {
    return *unpack_pprof(test::read_file(in_result(kNamedProfile)));
  }

  // All bytes of all files of the result, unpacked.
  [[nodiscard]] std::string all_bytes() const {
    std::string bytes = unpacked_names();
    for (const auto& entry : std::filesystem::recursive_directory_iterator(in_result(""))) {
      if (entry.is_regular_file()) bytes += test::read_file(entry.path());
    }
    return bytes;
  }

  [[nodiscard]] std::vector<std::string> names_exported(const TargetRequest& target) const {
    remove_result();
    const auto result = run(plan(kRoot, target));
    if (!result) return {result.error().message};
    std::vector<std::string> names;
    for (const ProfileSummary& profile : result->info.summary.profiles) {
      names.push_back(profile.comm + "." + std::to_string(profile.pid));
    }
    return names;
  }

  test::ScratchDirectory scratch_;
  std::vector<HistoryFile> files_;
};

TEST_F(HistoryExportTest, AnExportIsTheSumOfItsWindows) {
  add(0, {hot(7, "work", 3), hot(8, "other", 1)}, {{"ring_full", 2}});
  add(1, {hot(7, "work", 4)});
  add(3, {hot(7, "work", 5)}, {{"ring_full", 1}, {"scratch", 1}});
  const auto result = run(plan(kRoot));
  ASSERT_TRUE(result) << result.error().message;
  const SessionSummary& summary = result->info.summary;
  EXPECT_EQ(summary.session, result->info.result);
  EXPECT_EQ(summary.started, "2026-01-02T14:05:00Z");
  EXPECT_EQ(summary.seconds, 240);
  EXPECT_EQ(summary.period_us, 52'632U);
  EXPECT_EQ(summary.ledger.taken, 17U);
  EXPECT_EQ(summary.ledger.written, 13U);
  EXPECT_EQ(summary.ledger.lost, (CountsByReason{{"ring_full", 3}, {"scratch", 1}}));
  EXPECT_EQ(summary.ledger.difference(), 0);
  ASSERT_THAT(summary.profiles, SizeIs(2));
  const ProfileSummary& work = summary.profiles[0];
  EXPECT_EQ(work.path, "work.7.prof");
  EXPECT_EQ(work.start_time_ns, 1007U);
  EXPECT_EQ(work.samples, 12U);
  EXPECT_EQ(work.user_samples, 12U);
  EXPECT_EQ(work.stacks, 1U);
  EXPECT_EQ(read_profile("work.7.prof").samples(), 12U);
  EXPECT_EQ(read_profile("work.7.prof").period, 52'632U);
  EXPECT_EQ(read_profile("other.8.prof").samples(), 1U);
}

// Finds numbers of blocks in files whose samples are microseconds, a difference by rounding, and
// longest blocks that are added up, or keep the samples of two windows apart.
TEST_F(HistoryExportTest, AnExportOfBlocksCountsMicroseconds) {
  add(NamedWindow::of_blocks(at_minute(0), 2000us), {hot(7, "work", 3), hot(8, "other", 1)});
  add(NamedWindow::of_blocks(at_minute(1), 5000us), {hot(7, "work", 4)});
  const auto result = run(plan(kRoot));
  ASSERT_TRUE(result) << result.error().message;
  const SessionSummary& summary = result->info.summary;
  EXPECT_EQ(summary.event, "off-cpu");
  EXPECT_EQ(summary.period_us, 1U);
  EXPECT_EQ(summary.period_unit, "microseconds");
  EXPECT_EQ(summary.ledger.taken, 28'000U);
  EXPECT_EQ(summary.ledger.written, 28'000U);
  ASSERT_THAT(summary.profiles, SizeIs(2));
  EXPECT_EQ(summary.profiles[0].samples, 26'000U);
  EXPECT_EQ(read_profile("work.7.prof").samples(), 26'000U);
  EXPECT_EQ(read_profile("work.7.prof").period, 1U);
  EXPECT_EQ(read_profile("other.8.prof").samples(), 2000U);
  const auto names = decode_pprof(test::read_file(in_result(kNamedProfile)));
  ASSERT_TRUE(names.has_value());
  std::vector<std::pair<std::int64_t, std::int64_t>> blocks;
  blocks.reserve(names->samples().size());
  for (std::size_t i = 0; i < names->samples().size(); ++i) {
    blocks.emplace_back(names->values(i)[0], names->longest(i));
  }
  EXPECT_THAT(blocks, testing::UnorderedElementsAre(testing::Pair(7, 5'000'000),
                                                    testing::Pair(1, 2'000'000)));
}

// Finds two events in one profile: the sums would mean different things.
TEST_F(HistoryExportTest, AWindowOfBlocksAmongOthersIsUnreadable) {
  add(0, {hot(7, "work", 3)});
  add(NamedWindow::of_blocks(at_minute(1), 2000us), {hot(7, "work", 4)});
  const auto result = run(plan(kRoot));
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->info.summary.ledger.written, 3U);
  EXPECT_EQ(result->info.summary.ledger.lost.at("unreadable"), 8000U);
}

TEST_F(HistoryExportTest, TheProfileAloneIsThatOfTheWholeExport) {
  add(0, {hot(7, "work", 3), hot(8, "other", 1)}, {{"ring_full", 2}});
  add(1, {hot(7, "work", 4)});
  const auto whole = run(plan(kRoot));
  ASSERT_TRUE(whole) << whole.error().message;
  auto profile = decode_pprof(test::read_file(in_result(kNamedProfile)));
  ASSERT_TRUE(profile.has_value());
  remove_result();
  ExportPlan only = plan(kRoot);
  only.profile_only = true;
  const auto alone = run(std::move(only));
  ASSERT_TRUE(alone) << alone.error().message;
  EXPECT_THAT(alone->info.files, IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(in_result("objects")));
  EXPECT_EQ(alone->info.summary.ledger, whole->info.summary.ledger);
  auto profile_alone = decode_pprof(test::read_file(in_result(kNamedProfile)));
  ASSERT_TRUE(profile_alone.has_value());
  EXPECT_EQ(profile->own_data, to_json(whole->info.summary));
  EXPECT_EQ(profile_alone->own_data, to_json(alone->info.summary));
  // The paths of files, and the counts of stacks in them, are in the own data.
  profile->own_data.clear();
  profile_alone->own_data.clear();
  EXPECT_EQ(encode_pprof(*profile_alone), encode_pprof(*profile));
  ASSERT_THAT(alone->info.summary.profiles, SizeIs(2));
  EXPECT_EQ(alone->info.summary.profiles[0].samples, 7U);
  EXPECT_EQ(alone->info.summary.profiles[0].user_samples, 7U);
  EXPECT_THAT(alone->info.summary.profiles[0].path, IsEmpty());
}

TEST_F(HistoryExportTest, AnExportOfTheProfileAloneWithoutAnySampleIsAnError) {
  add(0, {hot(7, "work", 3)});
  TargetRequest nobody;
  nobody.pids = {999};
  ExportPlan only = plan(kRoot, nobody);
  only.profile_only = true;
  const auto result = run(std::move(only));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kNotFound);
}

TEST_F(HistoryExportTest, TheProfileWithNamesHasTheSamplesOfTheFilesBesideIt) {
  add(0, {hot(7, "work", 3), hot(8, "other", 1)});
  add(1, {hot(7, "work", 4)});
  const auto result = run(plan(kRoot));
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_TRUE(result->info.named_profile);
  const auto profile = decode_pprof(test::read_file(in_result(kNamedProfile)));
  ASSERT_TRUE(profile.has_value());
  std::map<std::string, std::int64_t> samples;
  for (std::size_t i = 0; i < profile->samples().size(); ++i) {
    for (const PprofLabel& label : profile->labels(profile->samples()[i].labels)) {
      if (profile->text(label.key) != "comm") continue;
      samples[std::string(profile->text(label.text))] += profile->values(i)[0];
    }
  }
  EXPECT_EQ(samples, (std::map<std::string, std::int64_t>{{"work", 7}, {"other", 1}}));
  EXPECT_EQ(profile->own_data, to_json(result->info.summary));
  EXPECT_EQ(profile->text(profile->mappings()[0].file), "[all processes of host]");
}

// The windows are removed and the result is moved. Both pprofs still name the functions.
TEST_F(HistoryExportTest, AnExportNeedsNothingButItself) {
  add(0, {hot(7, "work", 3)});
  add(1, {hot(7, "work", 4)});
  const auto result = run(plan(kRoot));
  ASSERT_TRUE(result) << result.error().message;
  std::filesystem::remove_all(windows_dir());
  const path moved = scratch_.path() / "moved";
  std::filesystem::rename(in_result(""), moved);
  const test::ScratchDirectory fetched;
  const path profile =
      fetched.write("work.7.prof", with_build_dir(test::read_file(moved / "work.7.prof"), moved));
  const std::map<std::string, Row> rows{{"hot", {7, 7}}, {"warm", {0, 7}}};
  EXPECT_EQ(test::go_report(profile).rows, rows);
  EXPECT_EQ(test::perl_report(profile).rows, rows);
}

// An hour has no addresses and no pids of small processes.
TEST_F(HistoryExportTest, HoursAndWindowsAreAddedUp) {
  NamedWindow hour(at_minute(0), 3600s);
  hour.add(hot(7, "work", 50));
  NamedProcess others = hot(0, "cc1plus", 9);
  others.stacks.push_back({.functions = {"parse", "hot"}, .samples = 2});
  hour.add(others);
  PprofMerge merge({.drop_addresses = true});
  const std::string protobuf = *unpack_pprof(hour.bytes());
  ASSERT_TRUE(merge.add(*read_pprof_tables(protobuf)));
  const path hours = scratch_.path() / "hours";
  std::filesystem::create_directories(hours);
  ASSERT_TRUE(write_window(hours, hour.name(),
                           encode_window(std::move(merge).take(), hour.summary(), hour.record())));
  files_.push_back({hours, hour.name()});
  add(60, {hot(7, "work", 3)});
  const auto result = run(plan(kRoot));
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->info.summary.seconds, 3660);
  EXPECT_EQ(result->info.summary.ledger.difference(), 0);
  EXPECT_EQ(read_profile("work.7.prof").samples(), 53U);
  std::filesystem::current_path(in_result(""));
  EXPECT_EQ(test::go_report("work.7.prof").rows,
            (std::map<std::string, Row>{{"hot", {53, 53}}, {"warm", {0, 53}}}));
  EXPECT_EQ(test::go_report("cc1plus.0.prof").rows,
            (std::map<std::string, Row>{{"hot", {9, 11}}, {"parse", {2, 2}}, {"warm", {0, 9}}}));
  std::filesystem::current_path("/");
}

TEST_F(HistoryExportTest, NothingOfOtherProcessesIsInTheResult) {
  NamedProcess cold = hot(8, "foreign", 1);
  cold.file = "/usr/bin/cold-file";
  cold.cgroup = "/system.slice/cold.service";
  cold.stacks = {{.functions = {"cold"}, .samples = 1}};
  add(0, {hot(7, "work", 3), cold});
  TargetRequest target;
  target.pids = {7};
  const auto result = run(plan(kRoot, target));
  ASSERT_TRUE(result) << result.error().message;
  const std::string bytes = all_bytes();
  EXPECT_THAT(bytes, HasSubstr("warm"));
  EXPECT_THAT(bytes, Not(HasSubstr("cold")));
  EXPECT_THAT(bytes, Not(HasSubstr("foreign")));
}

TEST_F(HistoryExportTest, OthersGetTheirOwnProcessesWithOneKernelFrame) {
  const Caller caller{.uid = 4001, .gid = 4001, .pid = 9, .privileged = false};
  NamedProcess theirs = hot(7, "work", 3);
  theirs.owner = {.uid = 4001, .gid = 4001};
  theirs.stacks.push_back({.functions = {"k:do_idle", "k:entry", "hot"}, .samples = 2});
  NamedProcess roots = hot(8, "foreign", 1);
  roots.stacks = {{.functions = {"secret"}, .samples = 1}};
  NamedProcess changed = roots;
  changed.pid = 9;
  changed.owner = {.uid = 4001, .gid = 0};
  add(0, {theirs, roots, changed}, {{"ring_full", 5}});
  const auto result = run(plan(caller));
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_THAT(result->info.summary.profiles, SizeIs(1));
  EXPECT_EQ(result->info.summary.ledger.taken, 5U);
  EXPECT_EQ(result->info.summary.ledger.difference(), 0);
  const std::string bytes = all_bytes();
  for (const char* foreign : {"secret", "foreign", "do_idle", "entry", "ring_full"}) {
    EXPECT_THAT(bytes, Not(HasSubstr(foreign)));
  }
  std::filesystem::current_path(in_result(""));
  EXPECT_EQ(test::go_report("work.7.prof").rows,
            (std::map<std::string, Row>{{"[kernel]", {2, 2}}, {"hot", {3, 5}}, {"warm", {0, 3}}}));
  std::filesystem::current_path("/");
}

TEST_F(HistoryExportTest, RootSeesTheKernelsFunctions) {
  NamedProcess work = hot(7, "work", 0);
  work.stacks = {{.functions = {"k:do_idle", "k:entry", "hot"}, .samples = 2}};
  add(0, {work});
  ASSERT_TRUE(run(plan(kRoot)));
  std::filesystem::current_path(in_result(""));
  const std::map<std::string, Row> rows{{"do_idle", {2, 2}}, {"entry", {0, 2}}, {"hot", {0, 2}}};
  EXPECT_EQ(test::go_report("work.7.prof").rows, rows);
  EXPECT_EQ(test::perl_report("work.7.prof").rows, rows);
  std::filesystem::current_path("/");
}

TEST_F(HistoryExportTest, TargetsAreFoundByTheirCgroups) {
  const std::string id(64, 'a');
  const auto in = [](std::uint32_t pid, const std::string& comm, const std::string& cgroup) {
    NamedProcess process = hot(pid, comm, 1);
    process.cgroup = cgroup;
    if (pid == 3) process.user = 4001;
    return process;
  };
  add(0, {in(1, "a", "/system.slice/nginx.service"), in(2, "b", "/system.slice/x.service"),
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

TEST_F(HistoryExportTest, ANameOfSeveralContainersIsRefused) {
  NamedProcess one = hot(1, "a", 1);
  one.cgroup = "/docker/" + std::string(64, 'a');
  NamedProcess two = hot(2, "b", 1);
  two.cgroup = "/docker/a" + std::string(63, 'b');
  add(0, {one});
  add(1, {two});
  TargetRequest target;
  target.containers = {"a"};
  const auto result = run(plan(kRoot, target));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
}

TEST_F(HistoryExportTest, AProcessBeforeAnExecHasAProfileOfItsOwn) {
  add(0, {hot(7, "sh", 1), hot(7, "work", 2)});
  add(1, {hot(7, "work", 3)});
  ASSERT_TRUE(run(plan(kRoot)));
  EXPECT_EQ(read_profile("sh.7.prof").samples(), 1U);
  EXPECT_EQ(read_profile("work.7.prof").samples(), 5U);
}

// 19 Hz for a minute, then 99 Hz.
TEST_F(HistoryExportTest, CpuTimesAreRightAfterAChangeOfTheFrequency) {
  add(NamedWindow(at_minute(0), 60s, 52'632'000), {hot(7, "both", 19), hot(8, "slow", 38)});
  add(NamedWindow(at_minute(1), 60s, 10'101'000), {hot(7, "both", 99), hot(9, "fast", 198)});
  const auto result = run(plan(kRoot));
  ASSERT_TRUE(result) << result.error().message;
  const auto seconds_of = [](std::uint64_t period_us, std::uint64_t samples) {
    return static_cast<double>(period_us * samples) / 1e6;
  };
  for (const auto& [name, seconds] :
       {std::pair("both.7.prof", 2.0), {"slow.8.prof", 2.0}, {"fast.9.prof", 2.0}}) {
    const Profile profile = read_profile(name);
    EXPECT_NEAR(seconds_of(profile.period, profile.samples()), seconds, 0.001) << name;
  }
  const SessionSummary& summary = result->info.summary;
  EXPECT_NEAR(seconds_of(summary.period_us, summary.ledger.written), 6.0, 0.001);
  EXPECT_THAT(result->info.note.value_or(""), HasSubstr("frequency"));
}

TEST_F(HistoryExportTest, AWindowOfAnotherEventIsCountedAsLostAndNothingElseIs) {
  add(0, {hot(7, "work", 4)});
  NamedWindow other(at_minute(1));
  other.add(hot(7, "work", 3));
  const PprofProfile cycles({{"samples", "count"}, {"cycles", "count"}});
  ASSERT_TRUE(write_window(windows_dir(), other.name(),
                           encode_window(cycles, other.summary(), other.record())));
  files_.push_back({windows_dir(), other.name()});
  const auto result = run(plan(kRoot));
  ASSERT_TRUE(result) << result.error().message;
  const SessionLedger& ledger = result->info.summary.ledger;
  EXPECT_EQ(ledger.written, 4U);
  EXPECT_EQ(ledger.lost, (CountsByReason{{"unreadable", 3}}));
  EXPECT_EQ(ledger.difference(), 0);
}

TEST_F(HistoryExportTest, AWindowThatIsRemovedOrMalformedIsLeftOut) {
  const std::string gone = add(0, {hot(7, "work", 3)});
  const std::string malformed = add(1, {hot(7, "work", 4)});
  add(2, {hot(7, "work", 5)});
  std::filesystem::remove(file_of(gone));
  std::filesystem::resize_file(file_of(malformed),
                               std::filesystem::file_size(file_of(malformed)) - 1);
  const auto result = run(plan(kRoot));
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->info.summary.ledger.written, 5U);
  EXPECT_EQ(result->info.summary.seconds, 60);
  EXPECT_THAT(result->info.note.value_or(""), HasSubstr("1 window of this time could not be read"));
}

TEST_F(HistoryExportTest, AnExportSaysHowManyWindowsCouldNotBeRead) {
  for (int minute = 0; minute < 3; ++minute) {
    const std::string name = add(minute, {hot(7, "work", 4)});
    if (minute == 2) continue;
    std::filesystem::resize_file(file_of(name), std::filesystem::file_size(file_of(name)) - 1);
  }
  for (const bool profile_only : {false, true}) {
    ExportPlan planned = plan(kRoot);
    planned.profile_only = profile_only;
    planned.result.info.note = "first";
    remove_result();
    const auto result = run(std::move(planned));
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_THAT(result->info.note.value_or(""),
                testing::StartsWith("first; 2 windows of this time could not be read"));
    EXPECT_THAT(decode_pprof(unpacked_names())->comments,
                testing::Contains(HasSubstr("2 windows of this time could not be read")));
  }
}

TEST_F(HistoryExportTest, TooMuchForTheMemoryIsRefusedAndLeavesNothing) {
  add(0, {hot(7, "work", 3)});
  const auto result = run(plan(kRoot, {}, 100));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kTooLarge);
  EXPECT_TRUE(std::filesystem::is_empty(results_dir()));
}

TEST_F(HistoryExportTest, AnExportThatMatchesNothingFailsAndLeavesNothing) {
  add(0, {hot(7, "work", 1)});
  TargetRequest no_cgroup;
  no_cgroup.cgroups = {"/system.slice/x.servic"};
  TargetRequest no_comm;
  no_comm.comms = {"wor"};
  for (const TargetRequest& target : {no_cgroup, no_comm}) {
    const auto result = run(plan(kRoot, target));
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::kNotFound);
    EXPECT_EQ(result.error().message, "no process matched");
    EXPECT_NE(result.error().hint, "");
  }
  const Caller stranger{.uid = 4444, .gid = 4444, .pid = 9, .privileged = false};
  const auto nothing_seen = run(plan(stranger));
  ASSERT_FALSE(nothing_seen);
  EXPECT_EQ(nothing_seen.error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(std::filesystem::is_empty(results_dir()));
}

// A turn may end after each window, however many windows the range has.
TEST_F(HistoryExportTest, AnExportWhoseSliceIsOverStillReadsOneWindow) {
  for (int i = 0; i < 30; ++i) add(i, {hot(7, "work", 1)});
  HistoryExport exported(plan(kRoot));
  int turns = 0;
  for (Result<bool> done = false; !*done; ++turns) {
    done = exported.advance(0s);
    ASSERT_TRUE(done) << done.error().message;
  }
  EXPECT_GT(turns, 30);
  EXPECT_EQ(exported.take().info.summary.ledger.written, 30U);
}

}  // namespace
}  // namespace profd
