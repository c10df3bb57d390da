// `-e off-cpu`, `runnable` and `wall` on programs whose waits are known: tests/workloads/waits.c
// measures each by its own clock, the kernel counts its blocks (getrusage) and its threads' times
// (schedstat), and both pprofs read what was written.

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <ostream>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "formats/profile/block_names.h"
#include "tests/e2e/off_cpu_rows.h"
#include "tests/e2e/recording.h"
#include "tests/reachable_program.h"

namespace profd::e2e {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr double kNsInUs = 1e3;
constexpr double kNsInMs = 1e6;
constexpr double kNsInSecond = 1e9;

// The cumulative values in a table of pprof by function. `unit_ns` is that of a value.
std::map<std::string, double> times_in_table(const std::string& text, double unit_ns) {
  std::map<std::string, double> times;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream columns(line);
    std::string flat, flat_share, sum_share, cumulative, share, name;
    if (!(columns >> flat >> flat_share >> sum_share >> cumulative >> share >> name)) continue;
    if (!flat_share.ends_with('%') || !sum_share.ends_with('%') || !share.ends_with('%')) continue;
    times[name] += std::strtod(cumulative.c_str(), nullptr) * unit_ns;
  }
  return times;
}

std::map<std::string, double> go_times(const char* symbolize, const std::filesystem::path& file) {
  const Ended ended = run({GO_PPROF_BINARY, symbolize, "-top", "-unit=ns", "-nodecount=10000",
                           "-nodefraction=0", "-edgefraction=0", file});
  EXPECT_EQ(ended.status, 0) << ended.err;
  return times_in_table(ended.out, 1);
}

class OffCpuTest : public RecordingTest {
 protected:
  static Args waits(const Args& arguments) {
    Args command{workload("waits")};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return command;
  }

  // One file with names of a command, and what the command measured itself.
  BlockRows record_file(const Args& options, const Args& command) {
    const std::filesystem::path path = directory_.path() / (std::to_string(++files_) + ".pb.gz");
    Args args{"record"};
    args.insert(args.end(), options.begin(), options.end());
    args.insert(args.end(), {"-o", path, "--"});
    args.insert(args.end(), command.begin(), command.end());
    recorded_ = daemon_.profctl(args);
    EXPECT_EQ(recorded_.status, 0) << recorded_.err;
    EXPECT_EQ(daemon_.status().ledger.difference(), 0);
    own_ = OwnWaits::parse(recorded_.out);
    return BlockRows::read(path);
  }

  BlockRows record_waits(const Args& arguments, const Args& options = {"-e", "off-cpu"}) {
    return record_file(options, waits(arguments));
  }

  OwnWaits own_;

 private:
  int files_ = 0;
};

// The values, in both forms of output, as their readers show them. A value in another unit, a block
// that is lost or one that counts twice fails it.
TEST_F(OffCpuTest, BothPprofsShowTheSecondsOfADirectory) {
  const SessionSummary summary = record({"-e", "off-cpu"}, waits({"sleep"}));
  EXPECT_EQ(summary.event, kOffCpuEvent);
  EXPECT_EQ(summary.period_us, 1U);
  EXPECT_EQ(summary.period_unit, "microseconds");
  const OwnWait own = OwnWaits::parse(recorded_.out).function("sleep_500_times");
  ASSERT_EQ(own.count, 500U);
  const auto profiles = profiles_of(summary, "waits");
  ASSERT_EQ(profiles.size(), 1U);
  const auto go = go_times("-symbolize=local", file(profiles[0]));
  const std::string program = workload("waits");
  const Ended perl =
      run({"google-pprof", "--text", "--nodefraction=0", program, file(profiles[0])});
  ASSERT_EQ(perl.status, 0) << perl.err;
  const auto perls = times_in_table(perl.out, kNsInUs);
  ASSERT_TRUE(go.contains("sleep_500_times")) << ::testing::PrintToString(go);
  ASSERT_TRUE(perls.contains("sleep_500_times")) << perl.out;
  EXPECT_NEAR(go.at("sleep_500_times"), own.ns, 0.01 * own.ns);
  EXPECT_NEAR(perls.at("sleep_500_times"), own.ns, 0.01 * own.ns);
}

// In number and in time, each term by itself: a term that is counted twice or not at all fails it.
TEST_F(OffCpuTest, TheLedgerOfBlocksBalances) {
  const SessionSummary summary = record({"-e", "off-cpu"}, waits({"pipe", "50000"}));
  ASSERT_TRUE(summary.blocks.has_value());
  const BlockSummary& blocks = *summary.blocks;
  EXPECT_EQ(blocks.blocked.blocks, blocks.sampled.blocks + blocks.long_unsampled.blocks +
                                       blocks.short_unsampled.blocks + blocks.lost.blocks);
  EXPECT_LE(std::abs(blocks.difference()), 4);  // each term is rounded to microseconds
  EXPECT_EQ(blocks.lost.blocks, 0U);
  EXPECT_THAT(blocks.incomplete, IsEmpty());
  // The kernel's own count, of all blocks of the process: the start and the end add some.
  const OwnWaits own = OwnWaits::parse(recorded_.out);
  const double switches =
      own.function("wait_for_answer").switches + own.thread("answering").switches;
  EXPECT_NEAR(static_cast<double>(blocks.blocked.blocks), switches, 0.01 * switches + 20);
}

TEST_F(OffCpuTest, OneFileHasTheBlocksWithTheirStateAndWait) {
  const BlockRows rows = record_waits({"sleep"});
  EXPECT_EQ(rows.types(), (std::vector<std::string>{"blocks/count", "off_cpu/nanoseconds"}));
  EXPECT_EQ(rows.default_type(), kOffCpuType);
  const OwnWait own = own_.function("sleep_500_times");
  const BlockSum sum = rows.in("sleep_500_times");
  EXPECT_NEAR(sum.ns, own.ns, 0.01 * own.ns);
  EXPECT_NEAR(sum.blocks, own.switches, 1);
  EXPECT_NEAR(rows.in("sleep_500_times", {{"state", "S"}, {"wait", "sleep"}}).ns, sum.ns, 1);
  EXPECT_EQ(rows.in("sleep_500_times", {{"ongoing", "yes"}}).blocks, 0);
}

// The scheduler's own frames are cut: the leaf of a kernel stack is what waits.
TEST_F(OffCpuTest, NoStackBeginsInTheScheduler) {
  const BlockRows rows = record_waits({"futex"});
  const auto is_of_scheduler = [](const std::string& leaf) {
    return leaf.starts_with("bpf_") || leaf.find("sched_switch") != std::string::npos ||
           leaf == "__schedule" || leaf == "schedule";
  };
  for (const BlockRow& row : rows.all()) {
    ASSERT_FALSE(row.frames.empty());
    EXPECT_FALSE(is_of_scheduler(row.frames.front())) << row.frames.front();
  }
}

struct WaitCase {
  Args arguments;
  std::string function;
  std::string state;
  std::string wait;
};

void PrintTo(const WaitCase& wait, std::ostream* out) { *out << wait.function; }

// Below 2,000 blocks a second, each is there, with its time. A class of waits whose function in the
// kernel has another name on this kernel fails it.
class KnownWaitTest : public OffCpuTest, public ::testing::WithParamInterface<WaitCase> {};

TEST_P(KnownWaitTest, HasItsBlocksItsTimeAndItsLabels) {
  const WaitCase& wait = GetParam();
  const BlockRows rows = record_waits(wait.arguments);
  const OwnWait own = own_.function(wait.function);
  ASSERT_GT(own.count, 0U) << recorded_.out;
  const BlockSum sum = rows.in(wait.function);
  EXPECT_NEAR(sum.blocks, own.switches, 2);
  EXPECT_NEAR(sum.ns, own.ns, 0.02 * own.ns + kNsInMs);
  const BlockSum labelled = rows.in(wait.function, {{"state", wait.state}, {"wait", wait.wait}});
  EXPECT_GE(labelled.ns, 0.98 * sum.ns);
}

INSTANTIATE_TEST_SUITE_P(
    Classes, KnownWaitTest,
    ::testing::Values(WaitCase{{"futex"}, "wait_for_lock", "S", "futex"},
                      WaitCase{{"futex"}, "hold_lock", "S", "sleep"},
                      WaitCase{{"fault", "100"}, "touch_page", "S", "page-fault"},
                      WaitCase{{"migrate", "100"}, "sleep_while_moved", "S", "sleep"}));

// Their time is partly CPU time; the kernel's number of blocks is exact. A file that is in the page
// cache all the same, as on a tmpfs, has none.
TEST_F(OffCpuTest, ReadsOfADiskAreUninterruptible) {
  const BlockRows rows = record_waits({"read", BUILD_DIRECTORY, "1000"});
  const OwnWait own = own_.function("read_cold_file");
  if (own.switches < 100) {
    GTEST_SKIP() << "NOT TESTED: waits for a disk. The build lies on none that is waited for";
  }
  const BlockSum sum = rows.in("read_cold_file");
  EXPECT_LE(sum.ns, 1.01 * own.ns);
  EXPECT_NEAR(sum.blocks, own.switches, 0.1 * own.switches);
  EXPECT_GE(rows.in("read_cold_file", {{"state", "D"}, {"wait", "disk"}}).ns, 0.95 * sum.ns);
}

// More blocks than are walked: their sum is estimated. Without weights it would be a fraction.
TEST_F(OffCpuTest, ShortWaitsAreCountedByWeight) {
  const BlockRows rows = record_waits({"pipe", "200000"});
  const OwnWait own = own_.function("wait_for_answer");
  EXPECT_NEAR(rows.in("wait_for_answer").blocks, own.switches, 0.15 * own.switches);
  EXPECT_NEAR(rows.in("wait_for_answer").ns, own.ns, 0.25 * own.ns);  // a part is CPU time
  EXPECT_GE(rows.in("wait_for_answer", {{"wait", "pipe"}}).blocks,
            0.98 * rows.in("wait_for_answer").blocks);
}

TEST_F(OffCpuTest, StallsAmongShortWaitsHaveTheirStack) {
  const BlockRows rows = record_waits({"stall", "6", "1000"});
  const OwnWait own = own_.function("stall_among_short_waits");
  ASSERT_EQ(own.count, 2U);
  EXPECT_EQ(rows.in("stall_among_short_waits").blocks, 2);
  EXPECT_NEAR(rows.in("stall_among_short_waits").ns, own.ns, 0.01 * own.ns);
}

// At the site of the short waits their stack may be missing, not their time.
TEST_F(OffCpuTest, StallsAtAUsualSiteKeepTheirTime) {
  const BlockRows rows = record_waits({"stall-same", "3", "2000"}, {"-e", "off-cpu", "--threads"});
  const double own = own_.function("wait_for_answer").ns + own_.function("stalls").ns;
  const BlockSum main = rows.with({{"thread", "waits"}});
  EXPECT_GE(main.ns, 0.85 * own);
  EXPECT_LE(main.ns, 1.1 * own);
}

// Wall time less CPU time is blocked and runnable time. Of the run delay, which is known, a part is
// the wait after a wakeup and counts as blocked; the rest was preemption.
TEST_F(OffCpuTest, ThreadTotalsAgreeWithSchedstat) {
  const BlockRows rows = record_waits({"threads", "5"}, {"-e", "off-cpu", "--threads"});
  for (const char* name : {"sleeps-long", "sleeps-briefly", "sleeps-works", "works"}) {
    const OwnThread own = own_.thread(name);
    ASSERT_GT(own.wall_ns, 4 * kNsInSecond) << recorded_.out;
    const BlockSum sum = rows.with({{"thread", name}});
    EXPECT_LE(sum.ns, own.wall_ns - own.run_ns + 0.01 * own.wall_ns) << name;
    EXPECT_GE(sum.ns, own.wall_ns - own.run_ns - own.delay_ns - 0.01 * own.wall_ns) << name;
  }
}

// The identity of the three classes, exact but for the ticks.
TEST_F(OffCpuTest, CpuBlockedAndRunnableAreTheWallTimeOfAThread) {
  const BlockRows rows = record_waits({"threads", "6"}, {"-e", "wall", "--threads"});
  for (const char* name : {"sleeps-long", "sleeps-briefly", "sleeps-works", "works"}) {
    const OwnThread own = own_.thread(name);
    const double running = rows.with({{"thread", name}, {"state", "running"}}).ns;
    const double off = rows.with({{"thread", name}}).ns - running;
    EXPECT_NEAR(off, own.wall_ns - own.run_ns, 0.01 * own.wall_ns) << name;
    EXPECT_NEAR(running, own.run_ns, 0.1 * own.wall_ns) << name;  // 600 ticks at most
  }
  std::set<std::string> roots;
  for (const BlockRow& row : rows.all()) roots.insert(row.frames.back());
  const std::string on_cpu(kOnCpuFrame);
  const std::string blocked(kBlockedFrame);
  EXPECT_THAT(roots, Each(AnyOf(on_cpu, blocked, std::string(kRunnableFrame))));
  EXPECT_THAT(roots, Contains(on_cpu));
  EXPECT_THAT(roots, Contains(blocked));
}

// Two busy threads on one CPU wait for it, and for nothing else.
TEST_F(OffCpuTest, PreemptedThreadsAreRunnableNotBlocked) {
  const BlockRows blocked = record_waits({"preempt", "2"});
  EXPECT_LE(blocked.in("preempted_work").ns, 20 * kNsInMs);
  const BlockRows runnable = record_waits({"preempt", "2"}, {"-e", "runnable"});
  EXPECT_EQ(runnable.default_type(), kRunnableType);
  const double delay = own_.thread("busy-a").delay_ns + own_.thread("busy-b").delay_ns;
  ASSERT_GT(delay, 0.5 * kNsInSecond) << recorded_.out;
  EXPECT_NEAR(runnable.in("preempted_work").ns, delay, 0.1 * delay);
  EXPECT_NEAR(runnable.in("preempted_work", {{"state", "runnable"}}).ns,
              runnable.in("preempted_work").ns, 1);
}

// A block that ends with its thread or its program is neither lost nor endless.
TEST_F(OffCpuTest, ABlockEndsWithItsProcess) {
  for (const std::string mode : {"exec", "exit", "kill"}) {
    const BlockRows rows = record_waits({mode});
    const std::string function = "blocked_at_" + mode;
    const OwnWait own = own_.function(function);
    ASSERT_GT(own.ns, 0.2 * kNsInSecond) << recorded_.out;
    EXPECT_NEAR(rows.in(function).ns, own.ns, 0.02 * own.ns + 20 * kNsInMs) << mode;
    EXPECT_EQ(rows.in(function).blocks, 1) << mode;
    EXPECT_NEAR(rows.in("sleep_meanwhile").ns, 0.3 * kNsInSecond, 20 * kNsInMs) << mode;
    if (mode == "exec") {
      EXPECT_NEAR(rows.in("sleep_after_exec").ns, 0.2 * kNsInSecond, 20 * kNsInMs);
    }
    if (mode == "kill") {
      EXPECT_EQ(rows.in("wait_for_child", {{"wait", "child"}}).blocks,
                rows.in("wait_for_child").blocks);
    }
  }
}

// It began before the session, and did not end in it: it counts from the start to the end.
TEST_F(OffCpuTest, ABlockFromBeforeTheStartCountsFromThere) {
  const Process process(waits({"outlast", "600"}));
  ASSERT_TRUE(eventually([&] { return process.out() == "ready\n"; }));
  const std::filesystem::path path = directory_.path() / "before.pb.gz";
  const Ended ended = daemon_.profctl(
      {"record", "-e", "off-cpu", "-d", "2s", "-p", std::to_string(process.pid()), "-o", path});
  ASSERT_EQ(ended.status, 0) << ended.err;
  const BlockRows rows = BlockRows::read(path);
  const std::string frame(kBeforeStartFrame);
  EXPECT_EQ(rows.in(frame, {{"ongoing", "yes"}}).blocks, 1);
  EXPECT_GE(rows.in(frame).ns, 1.9 * kNsInSecond);
  EXPECT_LE(rows.in(frame).ns, 3 * kNsInSecond);
  EXPECT_EQ(rows.in(frame, {{"state", "S"}, {"wait", "sleep"}}).blocks, 1);
}

// It began in the session, so its stack is known, and counts up to the end.
TEST_F(OffCpuTest, ABlockThatOutlastsTheSessionIsMarked) {
  const std::filesystem::path path = directory_.path() / "outlast.pb.gz";
  const Process process(
      {"sh", "-c", "sleep 3; exec " + workload("waits").string() + " outlast 600"});
  const Ended ended = daemon_.profctl(
      {"record", "-e", "off-cpu", "-d", "6s", "-p", std::to_string(process.pid()), "-o", path});
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(process.out(), "ready\n");
  const BlockRows rows = BlockRows::read(path);
  const BlockSum sum = rows.in("outlast_the_session");
  EXPECT_EQ(sum.blocks, 1);
  EXPECT_GT(sum.ns, 1 * kNsInSecond);
  EXPECT_LT(sum.ns, 6.5 * kNsInSecond);
  EXPECT_NEAR(rows.in("outlast_the_session", {{"ongoing", "yes"}}).ns, sum.ns, 1);
}

// What hangs is what is looked for. Finds a dump without it, and one that ends it.
TEST_F(OffCpuTest, ADumpHasWhatIsBlockedNow) {
  const Process process(
      {"sh", "-c", "sleep 2; exec " + workload("waits").string() + " outlast 600"});
  const Ended started =
      daemon_.profctl({"start", "-e", "off-cpu", "-p", std::to_string(process.pid())});
  ASSERT_EQ(started.status, 0) << started.err;
  const std::string id = first_line(started.out);
  ASSERT_TRUE(eventually([&] { return process.out() == "ready\n"; }));
  double before = 0;
  for (int dumps = 0; dumps < 2; ++dumps) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    const std::filesystem::path path = directory_.path() / (std::to_string(dumps) + "-dump.pb.gz");
    const Ended ended = daemon_.profctl({"dump", id, "-o", path});
    ASSERT_EQ(ended.status, 0) << ended.err;
    const BlockSum sum = BlockRows::read(path).in("outlast_the_session", {{"ongoing", "yes"}});
    EXPECT_EQ(sum.blocks, 1);
    EXPECT_GT(sum.ns, before + 0.3 * kNsInSecond);
    before = sum.ns;
  }
  const std::filesystem::path path = directory_.path() / "stopped.pb.gz";
  ASSERT_EQ(daemon_.profctl({"stop", id, "-o", path}).status, 0);
  const BlockSum whole = BlockRows::read(path).in("outlast_the_session");
  EXPECT_EQ(whole.blocks, 1);
  EXPECT_GE(whole.ns, before);
}

// A user records his own process, and learns nothing of the kernel's functions.
TEST_F(OffCpuTest, AUserSeesTheKernelAsOneFrame) {
  const TemporaryDirectory home;
  std::filesystem::permissions(home.path(), std::filesystem::perms(0777));
  const std::filesystem::path path = home.path() / "x.pb.gz";
  Process::Options user;
  user.uid = kNobody;
  const Ended ended = daemon_.profctl({"record", "-e", "off-cpu", "-o", path, "--",
                                       test::reachable_program(workload("waits")), "futex"},
                                      user);
  ASSERT_EQ(ended.status, 0) << ended.err;
  const BlockRows rows = BlockRows::read(path);
  const OwnWait own = OwnWaits::parse(ended.out).function("wait_for_lock");
  EXPECT_NEAR(rows.in("wait_for_lock").ns, own.ns, 0.02 * own.ns + kNsInMs);
  EXPECT_GE(rows.in("wait_for_lock", {{"wait", "futex"}}).ns, 0.98 * rows.in("wait_for_lock").ns);
  for (const BlockRow& row : rows.all()) {
    for (const std::string& frame : row.frames) {
      EXPECT_THAT(frame, Not(AnyOf(HasSubstr("futex_wait"), HasSubstr("do_syscall"))));
    }
  }
}

// What was this program waiting for then: of a window that a session never asked for.
TEST_F(OffCpuTest, TheHistoryKeepsWhatAProgramWaitedFor) {
  const std::filesystem::path config = directory_.path() / "profd.toml";
  std::ofstream(config) << "[continuous]\nenabled = true\nwindow = \"2s\"\noff_cpu = true\n";
  Daemon::Options options;
  options.arguments = {"--config", config};
  const Daemon daemon(std::move(options));
  const auto windows = [&daemon] { return daemon.status().continuous_off_cpu; };
  ASSERT_TRUE(windows());
  ASSERT_TRUE(eventually([&] { return windows()->windows >= 1; }));
  const Ended ended = run(waits({"stall", "4", "1000"}));
  ASSERT_EQ(ended.status, 0) << ended.err;
  const std::uint64_t kept = windows()->windows;
  ASSERT_TRUE(eventually([&] { return windows()->windows >= kept + 3; }));
  EXPECT_THAT(windows()->failed, IsEmpty());
  const std::filesystem::path path = directory_.path() / "history.pb.gz";
  const Ended exported =
      daemon.profctl({"export", "--event", "off-cpu", "--last", "1h", "-n", "waits", "-o", path});
  ASSERT_EQ(exported.status, 0) << exported.err;
  const BlockRows rows = BlockRows::read(path);
  EXPECT_EQ(rows.default_type(), kOffCpuType);
  const OwnWait own = OwnWaits::parse(ended.out).function("stall_among_short_waits");
  const BlockSum stalls = rows.with({{"wait", "sleep"}});
  EXPECT_GE(stalls.ns, 0.9 * own.ns);
  const Ended report = daemon.profctl(
      {"report", "--event", "off-cpu", "--last", "1h", "-n", "waits", "--by", "wait"});
  EXPECT_EQ(report.status, 0) << report.err;
  EXPECT_THAT(report.out, HasSubstr("off the CPU"));
  EXPECT_EQ(daemon.profctl({"history", "--event", "off-cpu"}).status, 0);
}

// Without the option there is nothing, and the error says which one.
TEST_F(OffCpuTest, TheHistoryWithoutBlocksSaysHowToKeepThem) {
  const Ended ended = daemon_.profctl({"report", "--event", "off-cpu", "--last", "10m"});
  EXPECT_EQ(ended.status, 4);
  EXPECT_THAT(ended.err, HasSubstr("off_cpu = true"));
}

TEST_F(OffCpuTest, AFrequencyIsRefusedWithWhatToUse) {
  for (const char* option : {"-F", "--period"}) {
    const Ended ended = daemon_.profctl({"record", "-e", "off-cpu", option, "99", "-p",
                                         std::to_string(::getpid()), "-d", "1s", "-o", output_});
    EXPECT_EQ(ended.status, 2) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr("off-cpu has no"));
    EXPECT_THAT(ended.err, HasSubstr("wall"));
  }
  EXPECT_FALSE(std::filesystem::exists(output_));
}

// The kernel's own list of programs. What stays attached costs each switch of the host.
TEST_F(OffCpuTest, TheProgramIsThereOnlyForSessions) {
  const auto is_loaded = [] {
    return run({"bpftool", "prog", "show", "name", "profd_switch"}).out.find("profd_switch") !=
           std::string::npos;
  };
  ASSERT_TRUE(eventually([&] { return !is_loaded(); }, std::chrono::seconds(30)));
  const Process process(waits({"pool", "600", "4"}));
  const Ended started =
      daemon_.profctl({"start", "-e", "off-cpu", "-p", std::to_string(process.pid())});
  ASSERT_EQ(started.status, 0) << started.err;
  EXPECT_TRUE(is_loaded());
  const Ended stopped = daemon_.profctl({"stop", first_line(started.out), "-o", output_});
  EXPECT_EQ(stopped.status, 0) << stopped.err;
  EXPECT_TRUE(eventually([&] { return !is_loaded(); }, std::chrono::seconds(30)));
}

// Idle threads: each is one block from the start to the end of the session, or a part of it.
TEST_F(OffCpuTest, IdleThreadsOfAPoolAreAllThere) {
  const BlockRows rows = record_waits({"pool", "2", "64"}, {"-e", "off-cpu", "--threads"});
  const OwnWait own = own_.function("wait_for_work");
  ASSERT_EQ(own.count, 64U);
  const BlockSum sum = rows.in("wait_for_work", {{"thread", "pool-#"}, {"wait", "futex"}});
  EXPECT_NEAR(sum.blocks, own.switches, 1);
  EXPECT_NEAR(sum.ns, own.ns, 0.01 * own.ns);
}

}  // namespace
}  // namespace profd::e2e
