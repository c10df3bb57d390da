// Sessions of instrumented programs through profd and profctl, compared with the programs' own
// counts.

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>

#include <gmock/gmock.h>

#include "formats/profile/pprof_reader.h"
#include "tests/children.h"
#include "tests/collectors/xray/instrumented_app.h"
#include "tests/e2e/harness.h"
#include "tests/formats/readers.h"

namespace profd::e2e {
namespace {

using test::CallsOfRound;
using test::InstrumentedApp;
using test::kCallsOfOddRound;
using test::kCallsOfRound;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

class LiveTest : public testing::Test {
 protected:
  std::filesystem::path socket() const { return daemon_.socket().parent_path() / "app.sock"; }

  static Args start_command(const InstrumentedApp& app, const Args& more = {}) {
    Args args = {"start", "--event", "xray", "--pid", std::to_string(app.pid())};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }

  // The app may not have come yet.
  std::string start(const InstrumentedApp& app, const Args& more = {}) {
    Ended started;
    EXPECT_TRUE(eventually([&] {
      started = daemon_.profctl(start_command(app, more));
      return started.status == 0;
    })) << started.err;
    return started.out.substr(0, started.out.find('\n'));
  }

  SessionSummary stop(const std::string& session) {
    const Ended stopped = daemon_.profctl({"stop", session, "-o", output_});
    EXPECT_EQ(stopped.status, 0) << stopped.err;
    SessionSummary summary = read_summary(output_);
    EXPECT_EQ(summary.ledger.difference(), 0);
    return summary;
  }

  std::filesystem::path profile(const InstrumentedApp& app, const std::string& kind,
                                const std::string& name = "xray_calls") const {
    return output_ / (name + "." + std::to_string(app.pid()) + "." + kind + ".prof");
  }

  // Whose oracle is the program's own count.
  void expect_calls(const InstrumentedApp& app, std::uint64_t rounds,
                    std::span<const CallsOfRound> expected,
                    const std::string& name = "xray_calls") const {
    const test::Report report = test::go_report(profile(app, "xray-calls", name));
    for (const auto& [function, calls] : expected) {
      ASSERT_TRUE(report.rows.contains(function)) << function;
      EXPECT_EQ(report.rows.at(function).flat, calls * rounds) << function;
    }
  }

  Daemon daemon_;
  TemporaryDirectory directory_;
  std::filesystem::path output_ = directory_.path() / "out";
};

TEST_F(LiveTest, EveryCallOfEveryThreadIsInTheProfile) {
  InstrumentedApp app(socket(), {"--threads", "4", "--rounds", "5000", "--odd"});
  const std::string session = start(app);
  app.go();
  const std::uint64_t rounds = app.rounds_done();
  const SessionSummary summary = stop(session);
  EXPECT_EQ(rounds, 20000);
  expect_calls(app, rounds, kCallsOfOddRound);
  EXPECT_THAT(summary.ledger.lost, IsEmpty());
  EXPECT_EQ(summary.event, "xray");
  EXPECT_EQ(app.end(), 0);
}

// The calls of each function, by the leaves of the stacks of a file with names.
std::map<std::string, std::uint64_t> calls_by_leaf(const std::filesystem::path& path) {
  std::map<std::string, std::uint64_t> calls;
  const auto file = decode_pprof(test::read_file(path));
  EXPECT_TRUE(file.has_value());
  if (!file) return calls;
  for (std::size_t i = 0; i < file->samples().size(); ++i) {
    const PprofLocation& leaf = file->locations()[file->stack(file->samples()[i].stack)[0]];
    const PprofFunction& function = file->functions()[file->lines(leaf.lines).back().function];
    calls[std::string(file->text(function.name))] += static_cast<std::uint64_t>(file->values(i)[0]);
  }
  return calls;
}

TEST_F(LiveTest, OneFileHasEveryCallByName) {
  InstrumentedApp app(socket(), {"--rounds", "2000"});
  const std::string session = start(app);
  app.go();
  const std::uint64_t rounds = app.rounds_done();
  const std::filesystem::path file = directory_.path() / "calls.pb.gz";
  const Ended stopped = daemon_.profctl({"stop", session, "-o", file});
  ASSERT_EQ(stopped.status, 0) << stopped.err;
  const auto calls = calls_by_leaf(file);
  for (const auto& [function, calls_of_round] : kCallsOfRound) {
    ASSERT_TRUE(calls.contains(function)) << function;
    EXPECT_EQ(calls.at(function), calls_of_round * rounds) << function;
  }
  const std::string top = run({GO_PPROF_BINARY, "-symbolize=none", "-top", file}).out;
  EXPECT_THAT(top, HasSubstr("Type: wall"));
  EXPECT_THAT(top, HasSubstr("leaf"));
  EXPECT_EQ(app.end(), 0);
}

TEST_F(LiveTest, ExclusiveTimesAddUpToTheElapsedTime) {
  InstrumentedApp app(socket(), {"--rounds", "100000"});
  const std::string session = start(app, {"--functions", "^(outer|middle|leaf)\\(\\)$"});
  const auto begin = std::chrono::steady_clock::now();
  app.go();
  app.rounds_done();
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  stop(session);
  const test::Report report = test::go_report(profile(app, "xray"));
  // outer is all that the thread does; what lies between two rounds is none of its calls'.
  EXPECT_LE(static_cast<double>(report.total), took.count());
  EXPECT_GE(static_cast<double>(report.total), took.count() * 0.5);
  EXPECT_EQ(report.rows.at("outer").cumulative, report.total);
}

TEST_F(LiveTest, OnlyTheFunctionsThatMatchAreRecorded) {
  InstrumentedApp app(socket(), {"--rounds", "1000"});
  const std::string session = start(app, {"--functions", "^leaf"});
  app.go();
  const std::uint64_t rounds = app.rounds_done();
  const SessionSummary summary = stop(session);
  const test::Report report = test::go_report(profile(app, "xray-calls"));
  EXPECT_THAT(report.rows, ElementsAre(Pair("leaf", test::Row{8 * rounds, 8 * rounds})));
  ASSERT_TRUE(summary.xray);
  EXPECT_EQ(summary.xray->at("patched"), 1);
}

TEST_F(LiveTest, AnExpressionThatIsInvalidOrMatchesNothingFailsTheStart) {
  InstrumentedApp app(socket(), {});
  stop(start(app));  // it has come
  const Ended none = daemon_.profctl(start_command(app, {"--functions", "no such function"}));
  EXPECT_EQ(none.status, 4);
  EXPECT_THAT(none.err, HasSubstr("none of the"));
  EXPECT_THAT(none.err, HasSubstr("one of them is "));
  const Ended bad = daemon_.profctl(start_command(app, {"--functions", "("}));
  EXPECT_EQ(bad.status, 2) << bad.err;
  EXPECT_THAT(bad.err, HasSubstr("not a regular expression"));
  EXPECT_EQ(app.end(), 0);
}

TEST_F(LiveTest, AnAppThatHasNotConnectedIsNotFoundAndNotCounted) {
  InstrumentedApp app(output_.string() + ".sock", {});
  const Ended refused = daemon_.profctl(start_command(app));
  EXPECT_EQ(refused.status, 4);
  EXPECT_THAT(refused.err, HasSubstr("has not connected"));
  EXPECT_THAT(refused.err, HasSubstr("libprofd_xray"));
  EXPECT_THAT(refused.err, HasSubstr(socket().string()));
  EXPECT_EQ(daemon_.status().xray.failed, 0);
  EXPECT_EQ(app.end(), 0);
}

TEST_F(LiveTest, CallsWrittenBeforeAKillAreInTheProfile) {
  InstrumentedApp app(socket(), {"--rounds", "50000"});
  const std::string session = start(app);
  app.go();
  const std::uint64_t rounds = app.rounds_done();
  app.signal(SIGKILL);
  const std::filesystem::path calls = profile(app, "xray-calls");
  const pid_t pid = app.pid();
  app.wait();
  stop(session);
  const test::Report report = test::go_report(calls);
  EXPECT_EQ(report.rows.at("leaf").flat, 8 * rounds) << pid;
}

TEST_F(LiveTest, TheChildOfAForkIsAnAppOfItsOwn) {
  InstrumentedApp app(socket(), {"--rounds", "1000", "--fork"});
  const std::string session = start(app);
  app.go();
  EXPECT_EQ(app.line(), "child done");
  const std::uint64_t rounds = app.rounds_done();
  const SessionSummary summary = stop(session);
  EXPECT_THAT(summary.profiles, testing::SizeIs(2));
  expect_calls(app, rounds, kCallsOfRound);  // and not a call of the child's
}

std::string first_line_of(const std::filesystem::path& path) {
  std::string line;
  std::getline(std::ifstream(path) >> std::ws, line);
  return line;
}

// Whether the library's thread sleeps in poll(2), waiting for the socket to appear.
bool waits_for_profd(pid_t pid) {
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
    if (first_line_of(task.path() / "comm") != "profd-xray") continue;
    return first_line_of(task.path() / "syscall").starts_with(std::to_string(SYS_poll) + " ");
  }
  return false;
}

TEST_F(LiveTest, AnAppThatWasThereBeforeProfdIsFound) {
  daemon_.stop(SIGTERM);
  InstrumentedApp app(socket(), {"--rounds", "1000"});
  ASSERT_TRUE(eventually([&] { return waits_for_profd(app.pid()); }));
  daemon_.start();
  const auto since = std::chrono::steady_clock::now();
  const std::string session = start(app);
  EXPECT_LT(std::chrono::steady_clock::now() - since, std::chrono::seconds(5));
  app.go();
  const std::uint64_t rounds = app.rounds_done();
  stop(session);
  expect_calls(app, rounds, kCallsOfRound);
}

// Unpatched, a sled is a jump over itself (eb 09); patched it is a mov into r10d (41 ba).
bool is_patched(pid_t pid) {
  const auto functions = test::nm_functions(InstrumentedApp::program());
  std::uint64_t base = 0;
  std::FILE* const maps = std::fopen(("/proc/" + std::to_string(pid) + "/maps").c_str(), "re");
  if (maps == nullptr || std::fscanf(maps, "%lx", &base) != 1) return false;
  std::fclose(maps);
  const int memory = ::open(("/proc/" + std::to_string(pid) + "/mem").c_str(), O_RDONLY);
  unsigned char bytes[16] = {};
  const auto at = static_cast<off_t>(base + functions.at("_Z4leafv"));
  EXPECT_EQ(::pread(memory, bytes, sizeof bytes, at), static_cast<ssize_t>(sizeof bytes));
  ::close(memory);
  return bytes[0] == 0x41 && bytes[1] == 0xba;
}

TEST_F(LiveTest, ASessionGoesOnWhenTheDoorOfItsAppDiesAndTheAppConnectsAgain) {
  InstrumentedApp app(socket(), {"--rounds", "1000"});
  const std::string session = start(app);
  const pid_t door = test::child_called("profd-app-door", daemon_.process().pid());
  ASSERT_GT(door, 0);
  ASSERT_EQ(::kill(door, SIGKILL), 0);
  EXPECT_TRUE(eventually([&] { return daemon_.status().xray.doors_replaced == 1; }));
  app.go();
  const std::uint64_t rounds = app.rounds_done();
  stop(session);
  expect_calls(app, rounds, kCallsOfRound);
  EXPECT_NE(start(app), "");
  EXPECT_EQ(app.end(), 0);
}

TEST_F(LiveTest, FunctionsAreUnpatchedWhenProfdDies) {
  InstrumentedApp app(socket(), {"--forever"});
  start(app);
  app.go();
  EXPECT_TRUE(eventually([&] { return is_patched(app.pid()); }));
  daemon_.stop(SIGKILL);
  EXPECT_TRUE(eventually([&] { return !is_patched(app.pid()); }));
  daemon_.start();
  stop(start(app));
  EXPECT_FALSE(is_patched(app.pid()));
  app.signal(0);
}

TEST_F(LiveTest, SessionsFollowEachOtherWithoutATraceOfTheFirst) {
  InstrumentedApp app(socket(), {"--forever", "--threads", "3"});
  app.go();
  for (int i = 0; i < 3; ++i) {
    const std::string session = start(app);
    ::usleep(50'000);
    const SessionSummary summary = stop(session);
    ASSERT_TRUE(summary.xray);
    EXPECT_FALSE(summary.xray->contains("malformed_buffer"));
    const test::Report report = test::go_report(profile(app, "xray-calls"));
    // Rounds that were under way at either end are cut: a call of each function in each thread.
    const auto calls = [&](const char* function) {
      return static_cast<double>(report.rows.at(function).flat);
    };
    EXPECT_GT(calls("outer"), 0);
    EXPECT_NEAR(calls("leaf") / calls("outer"), 8, 0.1);
    std::filesystem::remove_all(output_);
  }
}

TEST_F(LiveTest, ADumpHasTheCallsSoFar) {
  InstrumentedApp app(socket(), {"--rounds", "1000"});
  const std::string session = start(app);
  app.go();
  const std::uint64_t rounds = app.rounds_done();
  ::usleep(300'000);
  const Ended dumped = daemon_.profctl({"dump", session, "-o", output_});
  ASSERT_EQ(dumped.status, 0) << dumped.err;
  expect_calls(app, rounds, kCallsOfRound);
  std::filesystem::remove_all(output_);
  stop(session);
  expect_calls(app, rounds, kCallsOfRound);
}

TEST_F(LiveTest, TheStaticLibraryDoesTheSame) {
  InstrumentedApp app(socket(), {"--rounds", "1000"}, "xray_calls_static");
  const std::string session = start(app);
  app.go();
  const std::uint64_t rounds = app.rounds_done();
  stop(session);
  expect_calls(app, rounds, kCallsOfRound, "xray_calls_stat");  // the kernel's 15 bytes of a name
}

TEST_F(LiveTest, DoctorShowsWhetherCallsCanBeRecorded) {
  InstrumentedApp app(socket(), {});
  stop(start(app));
  const Ended instrumented = daemon_.profctl({"doctor", "--pid", std::to_string(app.pid())});
  EXPECT_THAT(instrumented.out, HasSubstr("libprofd_xray: --event xray can record its calls"));
  const InstrumentedApp without(socket(), {"silence"}, "xray_hostile");
  const Ended unlinked = daemon_.profctl({"doctor", "--pid", std::to_string(without.pid())});
  EXPECT_THAT(unlinked.out, HasSubstr("but no libprofd_xray"));
}

TEST_F(LiveTest, AProgramThatIsNotInstrumentedIsRefused) {
  const Process other({"sleep", "60"});
  const Ended refused =
      daemon_.profctl({"start", "--event", "xray", "--pid", std::to_string(other.pid())});
  EXPECT_EQ(refused.status, 6);
  EXPECT_THAT(refused.err, HasSubstr("the program is not instrumented"));
}

TEST_F(LiveTest, AUserCantRecordProcessesOfOthers) {
  InstrumentedApp app(socket(), {});
  stop(start(app));
  Process::Options other;
  other.uid = 65533;
  const Ended refused = daemon_.profctl(start_command(app), other);
  EXPECT_EQ(refused.status, 5) << refused.err;
}

}  // namespace
}  // namespace profd::e2e
