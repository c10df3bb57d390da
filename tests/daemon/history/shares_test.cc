// Who used the CPU: the groups of processes, the ones that match a target, and several windows
// together.

#include "daemon/history/shares.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "tests/daemon/history/history_fixture.h"

namespace profd {
namespace {

using test::kAlice;
using test::kMinuteMs;
using test::kRoot;
using test::kStartMs;
using test::minute;
using test::NamedProcess;
using test::WindowHistoryTest;
using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;
using testing::SizeIs;

class SharesTest : public WindowHistoryTest {
 protected:
  static NamedProcess in(const std::string& cgroup, NamedProcess process) {
    process.cgroup = cgroup;
    return process;
  }

  WindowShares sum_of_minutes(std::uint64_t first, std::uint64_t count, TargetRequest target = {}) {
    HistoryRequest request;
    request.range = {.since_ms = kStartMs + first * kMinuteMs,
                     .until_ms = kStartMs + (first + count) * kMinuteMs};
    request.target = std::move(target);
    request.sum = true;
    const auto history = run(history_->list(kRoot, request));
    EXPECT_TRUE(history);
    EXPECT_THAT(history->windows, SizeIs(1));
    return history->windows.at(0);
  }
};

// Each of 19 samples a second is 1/19 s of 60 s.
TEST_F(SharesTest, ManyShortProcessesAreOneGroup) {
  std::vector<NamedProcess> processes{hot(1, "mysqld", 300)};
  for (std::uint32_t pid = 100; pid < 350; ++pid) {
    processes.push_back(
        in("/system.slice/backup.service", hot(pid, pid % 2 == 0 ? "tar" : "gzip", 2)));
  }
  for (std::uint32_t pid = 400; pid < 414; ++pid) {
    processes.push_back(in("/user.slice/user-1000.slice/session-3.scope", hot(pid, "cc1plus", 50)));
  }
  windows_.add(minute(0), processes);
  open();
  const WindowShares last = run(history_->last(kRoot)).value();
  ASSERT_THAT(last.groups, SizeIs(3));
  const GroupShare& compile = last.groups[0];
  EXPECT_EQ(compile.name, "cc1plus");
  EXPECT_FALSE(compile.is_unit);
  EXPECT_EQ(compile.processes, 14U);
  EXPECT_EQ(compile.samples, 700U);
  EXPECT_NEAR(compile.cpu_percent, 100.0 * 700 / 19 / 60, 0.1);
  const GroupShare& backup = last.groups[1];
  EXPECT_EQ(backup.name, "backup.service");
  EXPECT_TRUE(backup.is_unit);
  EXPECT_EQ(backup.processes, 250U);
  EXPECT_EQ(backup.samples, 500U);
  EXPECT_EQ(last.groups[2].name, "mysqld");
  EXPECT_NEAR(last.cpu_percent, 100.0 * 1500 / 19 / 60, 0.1);
  const auto listed = run(history_->list(kRoot, {}));
  EXPECT_EQ(listed->windows.at(0).groups, last.groups);
  EXPECT_THAT(listed->windows.at(0).processes, SizeIs(5));
}

TEST_F(SharesTest, AListHasAsManyGroupsAsAreAskedFor) {
  std::vector<NamedProcess> processes;
  for (std::uint32_t i = 1; i <= 30; ++i) processes.push_back(hot(i, "c" + std::to_string(i), i));
  windows_.add(minute(0), processes);
  open();
  HistoryRequest request;
  const auto usual = run(history_->list(kRoot, request));
  EXPECT_THAT(usual->windows.at(0).groups, SizeIs(5));
  request.groups = 20;
  const auto listed = run(history_->list(kRoot, request));
  const WindowShares& window = listed->windows.at(0);
  ASSERT_THAT(window.groups, SizeIs(20));
  EXPECT_EQ(window.groups.front().name, "c30");
  EXPECT_EQ(window.groups.back().name, "c11");
  EXPECT_THAT(window.processes, SizeIs(5));
}

// In an hour, the processes with few samples have no pid.
TEST_F(SharesTest, ProcessesWithoutAPidStayWithTheirUnits) {
  windows_.add(minute(0), {in("/system.slice/a.service", hot(0, "sh", 10)),
                           in("/system.slice/b.service", hot(0, "sh", 4)), hot(0, "sh", 3)});
  open();
  const WindowShares sum = sum_of_minutes(0, 1);
  EXPECT_THAT(sum.processes, ElementsAre(Field(&ProcessShare::unit, "a.service"),
                                         Field(&ProcessShare::unit, "b.service"),
                                         Field(&ProcessShare::unit, std::nullopt)));
  EXPECT_THAT(sum.groups,
              ElementsAre(Field(&GroupShare::samples, 10U), Field(&GroupShare::samples, 4U),
                          Field(&GroupShare::samples, 3U)));
}

TEST_F(SharesTest, ARangeIsAddedUp) {
  windows_.add(minute(0), {hot(1, "a", 10), hot(2, "b", 4)}, {{"ring_full", 1}});
  windows_.add(minute(1), {hot(2, "b", 30)}, {{"ring_full", 2}});
  windows_.add(minute(5), {hot(2, "b", 1)});
  open();
  const WindowShares sum = sum_of_minutes(0, 2);
  EXPECT_EQ(sum.started, "2026-01-02T14:05:00Z");
  EXPECT_EQ(sum.ended, "2026-01-02T14:07:00Z");
  EXPECT_EQ(sum.seconds, 120);
  EXPECT_EQ(sum.samples, 44U);
  EXPECT_EQ(sum.lost, (CountsByReason{{"ring_full", 3}}));
  EXPECT_THAT(sum.processes,
              ElementsAre(Field(&ProcessShare::samples, 34U), Field(&ProcessShare::samples, 10U)));
  EXPECT_NEAR(sum.processes[0].cpu_percent, 100.0 * 34 / 19 / 120, 0.1);
  EXPECT_EQ(sum_of_minutes(0, 10).seconds, 180) << "without the time that has no windows";
}

TEST_F(SharesTest, OnlyWhatMatchesATargetCounts) {
  windows_.add(minute(0), {in("/system.slice/web.service", hot(1, "a", 10)), hot(2, "b", 4)},
               {{"ring_full", 1}});
  windows_.add(minute(1), {hot(2, "b", 30)});
  open();
  TargetRequest target;
  target.units = {"web.service"};
  const WindowShares sum = sum_of_minutes(0, 2, target);
  EXPECT_EQ(sum.samples, 10U);
  EXPECT_THAT(sum.lost, IsEmpty());
  EXPECT_THAT(sum.groups, ElementsAre(Field(&GroupShare::name, "web.service")));
  HistoryRequest request;
  request.target = target;
  const auto listed = run(history_->list(kRoot, request));
  ASSERT_THAT(listed->windows, SizeIs(2));
  EXPECT_EQ(listed->windows[0].samples, 10U);
  EXPECT_EQ(listed->windows[1].samples, 0U);
}

TEST_F(SharesTest, OthersSeeTheGroupsOfTheirOwnProcesses) {
  NamedProcess mine = hot(1, "mine", 10);
  mine.owner = ProcessOwner{.uid = kAlice.uid, .gid = kAlice.gid};
  windows_.add(minute(0), {mine, in("/system.slice/secret.service", hot(2, "b", 4))});
  open();
  const auto listed = run(history_->list(kAlice, {}));
  EXPECT_THAT(listed->windows.at(0).groups, ElementsAre(Field(&GroupShare::name, "mine")));
  EXPECT_EQ(listed->windows[0].cpu_percent, listed->windows[0].processes.at(0).cpu_percent);
}

TEST_F(SharesTest, ARangeWithoutWindowsHasNoSum) {
  windows_.add(minute(0), {hot(1, "a", 10)});
  open();
  HistoryRequest request;
  request.range = {.since_ms = kStartMs + 60 * kMinuteMs, .until_ms = kStartMs + 61 * kMinuteMs};
  request.sum = true;
  const auto history = run(history_->list(kRoot, request));
  ASSERT_TRUE(history);
  EXPECT_THAT(history->windows, IsEmpty());
}

}  // namespace
}  // namespace profd
