#include "daemon/history/hour_file.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include <gmock/gmock.h>

#include "daemon/history/shares.h"
#include "daemon/history/view.h"
#include "formats/base/gzip.h"
#include "tests/daemon/callers.h"
#include "tests/daemon/history/fabricated_windows.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using test::NamedProcess;
using test::NamedWindow;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

// 2026-01-02 14:00:00 UTC
constexpr std::chrono::system_clock::time_point kHourStart{1'767'362'400s};
constexpr ProcessOwner kAlices{.uid = 4001, .gid = 4001};
constexpr ProcessOwner kBobs{.uid = 4002, .gid = 4002};

class HourFileTest : public testing::Test {
 protected:
  [[nodiscard]] HourPlan plan(const std::string& name = "20260102T140000Z") const {
    return {.windows_dir = windows_.windows(),
            .hours_dir = windows_.hours(),
            .name = name,
            .start = kHourStart,
            .windows = names_};
  }
  void add(int minute, const std::vector<NamedProcess>& processes,
           const CountsByReason& lost = {}) {
    names_.push_back(windows_.add(kHourStart + minute * 1min, processes, lost));
  }
  static Result<HourInfo> make(HourPlan plan, std::uint64_t max_memory = kMaxHourMemory) {
    HourMaker maker(std::move(plan), max_memory);
    for (;;) {
      const Result<bool> done = maker.advance(0ms);
      if (!done) return done.error();
      if (*done) return maker.take();
    }
  }
  [[nodiscard]] fs::path path_of(const std::string& hour) const {
    return windows_.hours() / (hour + ".pb.gz");
  }
  [[nodiscard]] WindowFile open(const std::string& hour = "20260102T140000Z") const {
    return WindowFile::open(windows_.hours(), hour).value();
  }
  // By go tool pprof: the samples of each function in all windows.
  [[nodiscard]] test::Report report_of_windows() const {
    test::Report sum;
    for (const std::string& name : names_) {
      const test::Report one = test::go_report(windows_.windows() / (name + ".pb.gz"));
      sum.total += one.total;
      for (const auto& [function, row] : one.rows) {
        sum.rows[function].flat += row.flat;
        sum.rows[function].cumulative += row.cumulative;
      }
    }
    return sum;
  }
  static std::map<std::uint32_t, std::uint64_t> samples_by_pid(const WindowFile& file) {
    std::map<std::uint32_t, std::uint64_t> samples;
    for (const ProfileSummary& process : file.summary().profiles) {
      samples[process.pid] += process.samples;
    }
    return samples;
  }
  static void make_until_killed(const HourPlan& plan) {
    for (int number = 2;; ++number) {
      HourPlan next = plan;
      next.name += "-" + std::to_string(number);
      if (!make(std::move(next))) ::_exit(1);
    }
  }

  test::FabricatedWindows windows_;
  std::vector<std::string> names_;
};

NamedProcess process_of(std::uint32_t pid, std::uint64_t samples, std::string comm = "work") {
  return {.pid = pid, .comm = std::move(comm), .stacks = {{{"hot", "warm", "main"}, samples}}};
}

// Finds a limit of samples that is one of microseconds: then each process would keep its pid.
TEST_F(HourFileTest, OfBlocksHasMicrosecondsAndThePidsOfThoseThatWaitedForASecond) {
  for (int minute = 0; minute < 2; ++minute) {
    NamedWindow window = NamedWindow::of_blocks(kHourStart + minute * 1min, 100ms);
    window.add(process_of(7, 5)).add(process_of(8, 4));
    names_.push_back(window.write(windows_.windows()));
  }
  ASSERT_TRUE(make(plan()));
  const WindowFile hour = open();
  EXPECT_EQ(hour.summary().event, "off-cpu");
  EXPECT_EQ(hour.summary().ledger.written, 1'800'000U);
  EXPECT_THAT(samples_by_pid(hour),
              ElementsAre(testing::Pair(0U, 800'000U), testing::Pair(7U, 1'000'000U)));
}

TEST_F(HourFileTest, HasTheSamplesOfItsWindowsByFunctionAndByProcess) {
  for (int minute = 0; minute < 5; ++minute) {
    NamedProcess two = process_of(8, 4, "other");
    two.stacks.push_back({{"f" + std::to_string(minute), "main"}, 3});
    add(minute, {process_of(7, 20), two}, {{"ring_full", 2}});
  }
  ASSERT_TRUE(make(plan()));
  const test::Report windows = report_of_windows();
  const test::Report hour = test::go_report(path_of("20260102T140000Z"));
  EXPECT_EQ(windows.total, 5 * 27U);
  EXPECT_EQ(hour.total, windows.total);
  EXPECT_EQ(hour.rows, windows.rows);
  const WindowFile file = open();
  EXPECT_EQ(samples_by_pid(file), (std::map<std::uint32_t, std::uint64_t>{{7, 100}, {8, 35}}));
  EXPECT_EQ(file.summary().ledger.taken, 5 * 29U);
  EXPECT_EQ(file.summary().ledger.written, 5 * 27U);
  EXPECT_EQ(file.summary().ledger.lost, (CountsByReason{{"ring_full", 10}}));
  EXPECT_EQ(file.summary().session, "20260102T140000Z");
  EXPECT_EQ(file.record().start, kHourStart);
  EXPECT_EQ(file.record().end, kHourStart + 5min);
}

TEST_F(HourFileTest, HasNoAddresses) {
  add(0, {process_of(7, 20)});
  ASSERT_TRUE(make(plan()));
  const WindowFile window = WindowFile::open(windows_.windows(), names_[0]).value();
  const PprofTables of_window = window.tables().value();
  ASSERT_NE(of_window.locations.at(0).address, 0U);
  const WindowFile file = open();
  const PprofTables of_hour = file.tables().value();
  ASSERT_THAT(of_hour.locations, SizeIs(of_window.locations.size()));
  for (const PprofTables::Location& location : of_hour.locations) {
    EXPECT_EQ(location.address, 0U);
  }
}

TEST_F(HourFileTest, ProcessesWithFewSamplesAreOneWithoutPid) {
  add(0, {process_of(7, 5), process_of(8, 9), process_of(9, 3)});
  add(1, {process_of(7, 5), process_of(9, 3), process_of(10, 1, "other")});
  ASSERT_TRUE(make(plan()));
  EXPECT_EQ(samples_by_pid(open()), (std::map<std::uint32_t, std::uint64_t>{{0, 16}, {7, 10}}));
  EXPECT_THAT(open().summary().profiles, SizeIs(3)) << "work, work without pid, other";
}

TEST_F(HourFileTest, DoesNotAddUpProcessesOfTwoOwners) {
  NamedProcess alices = process_of(7, 3);
  alices.owner = kAlices;
  NamedProcess another = process_of(8, 4);
  another.owner = kAlices;
  NamedProcess hidden = process_of(9, 5);  // such as one that is not dumpable
  NamedProcess others = process_of(10, 2, "calm");
  others.owner = kAlices;
  add(0, {alices, another, hidden, others});
  ASSERT_TRUE(make(plan()));
  EXPECT_EQ(samples_by_pid(open()),
            (std::map<std::uint32_t, std::uint64_t>{{0, 2}, {7, 3}, {8, 4}, {9, 5}}));
  const WindowView view = view_window(open(), test::kAlice);
  EXPECT_EQ(view.summary.ledger.written, 9U);
}

TEST_F(HourFileTest, APidThatHadTwoOwnersHasNone) {
  NamedProcess alices = process_of(7, 30);
  alices.owner = kAlices;
  NamedProcess bobs = process_of(7, 30);
  bobs.owner = kBobs;
  add(0, {alices});
  add(1, {bobs});
  ASSERT_TRUE(make(plan()));
  for (const Caller& caller : {test::kAlice, test::kBob}) {
    EXPECT_THAT(view_window(open(), caller).profiles, IsEmpty());
  }
}

TEST_F(HourFileTest, TheCgroupOfProcessesWithoutPidIsTheirCommonPart) {
  NamedProcess one = process_of(7, 3);
  one.cgroup = "/system.slice/web.service/worker-1";
  NamedProcess other = process_of(8, 3);
  other.cgroup = "/system.slice/web.service/worker-12";
  add(0, {one, other});
  ASSERT_TRUE(make(plan()));
  const WindowFile file = open();
  ASSERT_THAT(file.record().profiles, SizeIs(1));
  EXPECT_EQ(file.record().profiles[0].labels.unit, "web.service");
  EXPECT_EQ(file.record().profiles[0].cgroup, "/system.slice/web.service");
}

TEST_F(HourFileTest, OthersGetTheirProcessesAndNoByteOfAnothers) {
  NamedProcess alices = process_of(7, 30, "alices");
  alices.owner = kAlices;
  alices.file = "/home/alice/work";
  alices.stacks.push_back({{"k:do_idle", "k:secret", "hot"}, 2});
  NamedProcess few = process_of(8, 2, "alices");
  few.owner = kAlices;
  NamedProcess bobs{.pid = 9,
                    .comm = "bobs",
                    .owner = kBobs,
                    .file = "/home/bob/private",
                    .stacks = {{{"bobs_function"}, 40}}};
  NamedProcess roots{.pid = 10, .comm = "roots", .stacks = {{{"roots_function"}, 3}}};
  for (int minute = 0; minute < 3; ++minute) add(minute, {alices, few, bobs, roots});
  ASSERT_TRUE(make(plan()));
  const auto bytes = read_window_for(test::kAlice, windows_.hours(), "20260102T140000Z");
  ASSERT_TRUE(bytes) << bytes.error().message;
  const auto file = WindowFile::decode(*bytes);
  ASSERT_TRUE(file);
  EXPECT_EQ(samples_by_pid(*file), (std::map<std::uint32_t, std::uint64_t>{{0, 6}, {7, 96}}));
  const std::string unpacked = unpack_gzip(*bytes, 1 << 20).value();
  ASSERT_THAT(unpacked, HasSubstr("hot"));
  for (const char* foreign : {"bob", "private", "root", "secret", "do_idle", "4002"}) {
    EXPECT_THAT(unpacked, Not(HasSubstr(foreign))) << foreign;
    EXPECT_THAT(*bytes, Not(HasSubstr(foreign))) << foreign;
  }
  const auto carols = read_window_for({.uid = 4003, .gid = 4003, .pid = 5, .privileged = false},
                                      windows_.hours(), "20260102T140000Z");
  ASSERT_FALSE(carols);
  EXPECT_EQ(carols.error().code, ErrorCode::kNotFound);
}

TEST_F(HourFileTest, AWindowThatCantBeReadIsLeftOut) {
  add(0, {process_of(7, 20)});
  add(1, {process_of(7, 30)});
  add(2, {process_of(7, 40)});
  fs::resize_file(windows_.windows() / (names_[1] + ".pb.gz"), 100);
  const Result<HourInfo> made = make(plan());
  ASSERT_TRUE(made);
  EXPECT_EQ(open().summary().ledger.written, 60U);
  EXPECT_THAT(made->parts.windows, ElementsAre(names_[0], names_[1], names_[2]));
}

TEST_F(HourFileTest, NothingIsMadeOfWindowsThatAreGone) {
  add(0, {process_of(7, 20)});
  fs::remove(windows_.windows() / (names_[0] + ".pb.gz"));
  const Result<HourInfo> made = make(plan());
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(fs::is_empty(windows_.hours()));
}

TEST_F(HourFileTest, WindowsBeyondTheMemoryAreOfAnotherFile) {
  for (int minute = 0; minute < 4; ++minute) add(minute, {process_of(7, 20)});
  const Result<HourInfo> made = make(plan(), 1);
  ASSERT_TRUE(made);
  EXPECT_THAT(made->parts.windows, ElementsAre(names_[0]));
  EXPECT_EQ(read_window_head(windows_.hours(), made->name)->parts, made->parts);
}

// Processes of a moment, each with a name and a long cgroup of its own.
void add_short_lived(std::vector<NamedProcess>& processes, int minute, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t pid = 1000 + static_cast<std::uint32_t>(minute) * count + i;
    NamedProcess process = process_of(pid, 1, "short" + std::to_string(pid));
    process.owner = kAlices;
    process.user = kAlices.uid;
    process.cgroup = "/user.slice/app-" + std::to_string(pid) + std::string(900, 'c');
    processes.push_back(std::move(process));
  }
}

TEST_F(HourFileTest, ShortLivedProcessesOfAUserStayWithinTheUsersShare) {
  constexpr std::size_t kLimit = std::size_t{64} << 10;
  constexpr std::uint32_t kShortLived = 1000;
  for (int minute = 0; minute < 4; ++minute) {
    NamedProcess bobs = process_of(9, 4, "bobs");
    bobs.owner = kBobs;
    bobs.user = kBobs.uid;
    std::vector<NamedProcess> processes{process_of(7, 20, "roots"), bobs};
    add_short_lived(processes, minute, kShortLived);
    add(minute, processes);
  }
  HourPlan limited = plan();
  limited.limits.others = kLimit;
  const Result<HourInfo> made = make(limited);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_GT(made->over_share_samples, 4 * kShortLived - 100);
  const std::string unpacked =
      unpack_gzip(test::read_file(path_of("20260102T140000Z")), 64 << 20).value();
  EXPECT_LT(unpacked.size(), kLimit + 10'000);
  const WindowFile file = open();
  EXPECT_EQ(file.summary().ledger.written, 4 * (24 + kShortLived));
  std::map<std::string, std::uint64_t> samples;
  std::uint64_t sum = 0;
  for (const ProfileSummary& process : file.summary().profiles) {
    samples[process.comm] += process.samples;
    sum += process.samples;
  }
  EXPECT_EQ(sum, file.summary().ledger.written);
  EXPECT_EQ(samples["roots"], 80U);
  EXPECT_EQ(samples["bobs"], 16U);
  EXPECT_EQ(test::go_report(path_of("20260102T140000Z")).total, sum);
  EXPECT_EQ(view_window(file, test::kAlice).summary.ledger.written, 4 * kShortLived);
  EXPECT_EQ(view_window(file, test::kBob).summary.ledger.written, 16U);
}

// So that the samples of each process state its CPU time.
TEST_F(HourFileTest, WindowsOfAnotherFrequencyAreOfAnotherFile) {
  const auto add_with = [this](int minute, std::int64_t period_ns) {
    NamedWindow window(kHourStart + minute * 1min, 60s, period_ns);
    names_.push_back(window.add(process_of(7, 60)).write(windows_.windows()));
  };
  add_with(0, 52'632'000);
  add_with(1, 52'632'000);
  add_with(2, 10'101'000);
  const Result<HourInfo> first = make(plan());
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_THAT(first->parts.windows, ElementsAre(names_[0], names_[1]));
  const WindowShares slow = shares_of(view_window(open(first->name), test::kRoot), 1, 1);
  EXPECT_NEAR(slow.processes.at(0).cpu_percent, 5.2632, 1e-4);
  HourPlan rest = plan("20260102T140000Z-2");
  rest.windows = {names_[2]};
  ASSERT_TRUE(make(rest));
  const WindowShares fast = shares_of(view_window(open(rest.name), test::kRoot), 1, 1);
  EXPECT_NEAR(fast.processes.at(0).cpu_percent, 1.0101, 1e-4);
}

TEST_F(HourFileTest, SubordinateUidsHaveTheShareOfTheirUser) {
  std::vector<NamedProcess> processes;
  for (std::uint32_t uid = 200'000; uid < 200'010; ++uid) {
    processes.push_back(process_of(uid, 20));
    processes.back().user = uid;
  }
  add(0, processes);
  const test::ScratchDirectory scratch;
  HourPlan shared = plan();
  shared.owners = UidOwners(scratch.write("subuid", "alice:200000:1000\n"),
                            scratch.write("passwd", "alice:x:4001:4001::/:/bin/sh\n"));
  const Result<HourInfo> made = make(shared);
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_THAT(made->parts.users, SizeIs(1));
  EXPECT_EQ(made->parts.users[0].uid, 4001U);
}

TEST_F(HourFileTest, ProcessesCountForTheMemory) {
  for (int minute = 0; minute < 4; ++minute) {
    std::vector<NamedProcess> processes;
    add_short_lived(processes, minute, 500);
    add(minute, processes);
  }
  const Result<HourInfo> made = make(plan(), 3 << 19);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT(made->parts.windows, Not(SizeIs(4)));
  EXPECT_EQ(open().summary().ledger.written, 500 * made->parts.windows.size());
}

TEST_F(HourFileTest, AFileThatCouldNotBeReadIsNotWritten) {
  add(0, {process_of(7, 20)});
  HourPlan small = plan();
  small.max_unpacked_bytes = 300;
  const Result<HourInfo> made = make(small);
  ASSERT_FALSE(made);
  EXPECT_TRUE(fs::is_empty(windows_.hours()));
  EXPECT_TRUE(make(plan()));
}

TEST_F(HourFileTest, AHeaderHasTheNamesOfAsManyWindowsAsThereMayBe) {
  NamedWindow window(kHourStart);
  WindowParts parts;
  for (std::size_t i = 0; i < kMaxWindowsOfHour; ++i)
    parts.windows.push_back("20260102T140500Z-999");
  const std::string bytes =
      encode_window(window.profile(), window.summary(), window.record(), parts);
  fs::create_directories(windows_.hours());
  ASSERT_TRUE(write_window(windows_.hours(), "20260102T140000Z", bytes));
  EXPECT_EQ(read_window_head(windows_.hours(), "20260102T140000Z")->parts, parts);
  EXPECT_EQ(test::output_of("gzip -t " + path_of("20260102T140000Z").string()), "");
}

// EFBIG is the error of a full disk that a test can have alone.
TEST_F(HourFileTest, ADiskThatIsFullLeavesNothing) {
  add(0, {process_of(7, 20)});
  fs::create_directories(windows_.hours());
  const pid_t child = ::fork();
  if (child == 0) {
    (void)::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = 64, .rlim_max = 64};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::_exit(make(plan()) ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(fs::is_empty(windows_.hours()));
}

TEST_F(HourFileTest, AKillAtAnyMomentLeavesWholeHoursOnly) {
  for (int minute = 0; minute < 3; ++minute) add(minute, {process_of(7, 20)});
  fs::create_directories(windows_.hours());
  std::size_t made = 0;
  for (int round = 0; round < 20; ++round) {
    const pid_t child = ::fork();
    if (child == 0) make_until_killed(plan());
    std::this_thread::sleep_for(std::chrono::milliseconds(1 + round));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    const WindowStore store = windows_.open();
    EXPECT_EQ(store.malformed(), 0U);
    for (const HourInfo& hour : store.hours()) {
      EXPECT_EQ(open(hour.name).summary().ledger.written, 60U);
    }
    made += store.hours().size();
    fs::remove_all(windows_.hours());
    fs::create_directories(windows_.hours());
  }
  EXPECT_GT(made, 0U);
}

}  // namespace
}  // namespace profd
