#include "daemon/history/export.h"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "formats/api/session_summary.h"
#include "tests/daemon/history/history_fixture.h"

namespace profd {
namespace {

using namespace std::chrono_literals;
using std::filesystem::path;
using test::FabricatedProfile;
using test::kNoHistoryLimit;
using test::kRoot;
using test::kText;
using test::minute;
using test::profile_of;
using test::read_file;
using testing::ElementsAre;
using testing::SizeIs;

class HistoryExportTest : public test::WindowHistoryTest {
 protected:
  [[nodiscard]] std::vector<std::string> names_exported(const TargetRequest& target) {
    const auto result = export_as(kRoot, {.range = {}, .target = target});
    std::vector<std::string> names;
    if (!result) return {result.error().message};
    for (const ProfileSummary& profile : result->info.summary.profiles) {
      names.push_back(profile.comm + "." + std::to_string(profile.pid));
    }
    return names;
  }
};

TEST_F(HistoryExportTest, AnExportIsTheSumOfItsWindows) {
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

// The windows and objects are removed and the result is moved. Both pprofs still name the
// functions.
TEST_F(HistoryExportTest, AnExportNeedsNothingButItself) {
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

TEST_F(HistoryExportTest, AnImageHoldsOnlyWhatTheExportedProfilesHit) {
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

TEST_F(HistoryExportTest, RootSeesTheKernelsFunctionsThatWereHit) {
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

TEST_F(HistoryExportTest, TargetsAreFoundByTheirCgroups) {
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

TEST_F(HistoryExportTest, ANameOfSeveralContainersIsRefused) {
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

TEST_F(HistoryExportTest, AProcessBeforeAnExecHasAProfileOfItsOwn) {
  windows_.add(minute(0), {hot(7, "sh", 1), hot(7, "work", 2)});
  windows_.add(minute(1), {hot(7, "work", 3)});
  const auto result = export_all(kRoot);
  ASSERT_TRUE(result);
  EXPECT_EQ(read_profile(*result, "sh.7.prof").samples(), 1u);
  EXPECT_EQ(read_profile(*result, "work.7.prof").samples(), 5u);
}

TEST_F(HistoryExportTest, AMalformedProfileIsCountedAsLostAndNothingElseIs) {
  const std::string name = windows_.add(minute(0), {hot(7, "work", 3), hot(8, "other", 2)});
  windows_.add(minute(1), {hot(7, "work", 4)});
  const path malformed = windows_.state() / "windows" / name / "work.7.0.prof";
  std::filesystem::resize_file(malformed, std::filesystem::file_size(malformed) - 1);
  const auto result = export_all(kRoot);
  ASSERT_TRUE(result);
  const SessionLedger& ledger = result->info.summary.ledger;
  EXPECT_EQ(ledger.written, 6u);
  EXPECT_EQ(ledger.lost, (CountsByReason{{"unreadable", 3}}));
  EXPECT_EQ(ledger.difference(), 0);
}

TEST_F(HistoryExportTest, AWindowThatIsRemovedOrMalformedIsLeftOut) {
  const std::string gone = windows_.add(minute(0), {hot(7, "work", 3)});
  const std::string malformed = windows_.add(minute(1), {hot(7, "work", 4)});
  windows_.add(minute(2), {hot(7, "work", 5)});
  open();
  std::filesystem::remove_all(windows_.state() / "windows" / gone);
  std::filesystem::resize_file(windows_.state() / "windows" / malformed / kWindowSummaryFile, 10);
  const auto result = export_all(kRoot);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->info.summary.ledger.written, 5u);
  EXPECT_EQ(result->info.summary.seconds, 60);
  EXPECT_THAT(run(history_->list(kRoot, {}))->windows, SizeIs(1));
}

TEST_F(HistoryExportTest, FramesOfARemovedObjectHaveNoNames) {
  windows_.add(minute(0), {hot(7, "work", 3)});
  open();
  std::filesystem::remove_all(windows_.state() / "objects");
  const auto result = export_all(kRoot);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(read_profile(*result, "work.7.prof").mappings[0].path, "[work.so]");
}

TEST_F(HistoryExportTest, TooMuchForTheMemoryIsRefusedAndLeavesNothing) {
  windows_.add(minute(0), {hot(7, "work", 3)});
  const auto result = export_as(kRoot, {}, 100);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kTooLarge);
  EXPECT_TRUE(std::filesystem::is_empty(results()));
}

TEST_F(HistoryExportTest, AFinishedExportLeavesNoLinksBehind) {
  windows_.add(minute(0), {hot(7, "work", 3)});
  const auto result = export_all(kRoot);
  ASSERT_TRUE(result);
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(results())) {
    names.push_back(entry.path().filename());
  }
  EXPECT_THAT(names, ElementsAre(result->info.result));
}

TEST_F(HistoryExportTest, AnExportThatMatchesNothingFailsAndLeavesNothing) {
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
  const Caller stranger{.uid = 4444, .gid = 4444, .pid = 9, .privileged = false};
  const auto nothing_seen = export_all(stranger);
  ASSERT_FALSE(nothing_seen);
  EXPECT_EQ(nothing_seen.error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(std::filesystem::is_empty(results()));
}

// A turn may end after each window, however many windows the range has.
TEST_F(HistoryExportTest, AnExportWhoseSliceIsOverStillReadsOneWindow) {
  ExportPlan plan;
  for (int i = 0; i < 30; ++i) plan.windows.push_back(windows_.add(minute(i), {hot(7, "work", 1)}));
  plan.windows_dir = windows_.state() / "windows";
  plan.objects_dir = windows_.objects();
  plan.results_dir = results();
  plan.caller = kRoot;
  plan.target.all = true;
  plan.max_bytes = kNoHistoryLimit;
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

}  // namespace
}  // namespace profd
