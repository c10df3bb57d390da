// The subcommands of the history, against the real control server with a service that has windows.

#include <time.h>

#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "tests/ctl/profctl_fixture.h"

namespace profd {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

const std::string kId(64, 'c');

ProcessShare process(const std::string& comm, double cpu_percent) {
  ProcessShare share;
  share.cpu_percent = cpu_percent;
  share.pid = 812;
  share.comm = comm;
  share.samples = 114;
  share.user_samples = 100;
  share.complete_samples = 99;
  return share;
}

WindowShares window() {
  WindowShares window;
  window.window = "20260102T140500Z";
  window.started = "2026-01-02T14:05:00Z";
  window.seconds = 60;
  window.samples = 120;
  window.lost = {{"ring_full", 2}};
  window.processes = {process("nginx", 10), process("evil\x1b[31m", 0.5), process("c", 0.25),
                      process("d", 0)};
  window.processes[0].unit = "nginx.service";
  window.processes[1].container = kId;
  window.processes[2].unit = "bad\nunit";
  return window;
}

class HistoryTest : public test::ProfctlTest {
 protected:
  HistoryTest() {
    ::setenv("TZ", "Europe/Berlin", 1);
    ::tzset();
    service_.windows.windows = {window()};
  }
  ~HistoryTest() override {
    ::unsetenv("TZ");
    ::tzset();
  }
};

TEST_F(HistoryTest, PsIsATableInLocalTime) {
  const Ran ran = run({"ps"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out,
            "2026-01-02 15:05:00, 1 min: 120 samples, 2 lost\n\n"
            "CPU     PID  COMMAND    UNIT           CONTAINER     SAMPLES  COMPLETE  JIT CODE\n"
            "10.0 %  812  nginx      nginx.service  -             114      99.0 %    -\n"
            "0.5 %   812  evil?[31m  -              cccccccccccc  114      99.0 %    -\n"
            "0.2 %   812  c          bad?unit       -             114      99.0 %    -\n"
            "0.0 %   812  d          -              -             114      99.0 %    -\n");
}

TEST_F(HistoryTest, PsSaysThatTheWindowIsOldWhereContinuousModeIsOff) {
  const Ran off = run({"ps"});
  EXPECT_EQ(off.code, 0);
  EXPECT_THAT(off.err, HasSubstr("continuous mode is off"));
  EXPECT_EQ(run({"ps", "--json"}).err, "");
  service_.state.continuous.enabled = true;
  EXPECT_EQ(run({"ps"}).err, "");
}

TEST_F(HistoryTest, PsIsCutToANumberAUnitOrAContainer) {
  const auto shown = [this](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"ps", "--json"});
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, 0) << ran.err;
    std::vector<std::string> comms;
    const auto window = parse_window_shares(ran.out);
    EXPECT_TRUE(window) << ran.out;
    if (!window) return comms;
    for (const ProcessShare& share : window->processes) comms.push_back(share.comm);
    return comms;
  };
  EXPECT_THAT(shown({}), SizeIs(4));
  EXPECT_THAT(shown({"-n", "1"}), ElementsAre("nginx"));
  EXPECT_THAT(shown({"-u", "nginx"}), ElementsAre("nginx"));
  EXPECT_THAT(shown({"-c", "cccc"}), ElementsAre("evil\x1b[31m"));
}

TEST_F(HistoryTest, PsOfNothingThatRanIsNotFound) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"ps", "-u", "none"},
                                                    {"ps", "-c", "abc"},
                                                    {"ps", "-c", "abc", "--json"}}) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, kExitNotFound);
    EXPECT_THAT(ran.err, HasSubstr("no process matched"));
    EXPECT_THAT(ran.err, HasSubstr("profctl ps"));
    EXPECT_EQ(ran.out, "");
  }
}

TEST_F(HistoryTest, HistoryShowsTheHottestOfEachWindow) {
  service_.windows.left_out = 7;
  const Ran ran = run({"history", "--last", "1h", "-n", "5"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(
      ran.out,
      "STARTED              DURATION  SAMPLES  LOST  HOTTEST\n"
      "2026-01-02 15:05:00  1 min     120      2     nginx 10.0 %, evil?[31m 0.5 %, c 0.2 %\n");
  EXPECT_THAT(ran.err, HasSubstr("7 older windows"));
  ASSERT_THAT(service_.asked, SizeIs(1));
  EXPECT_EQ(service_.asked[0].limit, 5u);
  EXPECT_EQ(run({"history", "--json"}).out, to_json(service_.windows) + "\n");
}

TEST_F(HistoryTest, AnExportIsFetchedLikeAnyResult) {
  const Ran ran = run({"export", "--since", "2026-01-02 15:05", "--until", "@1767362760", "-u",
                       "nginx", "-c", "cc", "-p", "7", "-o", out_});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(fs::exists(out_ / "work.2.prof"));
  EXPECT_TRUE(fs::exists(out_ / "session.json"));
  ASSERT_THAT(service_.exported, SizeIs(1));
  ExportRequest expected;
  expected.range = {.since_ms = 1'767'362'700'000, .until_ms = 1'767'362'760'000};
  expected.target.pids = {7};
  expected.target.units = {"nginx.service"};
  expected.target.containers = {"cc"};
  EXPECT_EQ(service_.exported[0], expected);
  EXPECT_EQ(service_.calls.back(), "remove 5f2c01ab");
}

TEST_F(HistoryTest, AnExportToAFileAsksForTheProfileAlone) {
  (void)run({"export", "--last", "10m", "-o", out_.parent_path() / "all.pb.gz"});
  (void)run({"export", "--last", "10m", "-o", out_.parent_path() / "split", "--by", "unit"});
  (void)run({"export", "--last", "10m", "-o", out_.parent_path() / "files"});
  const auto refused = run({"export", "--last", "10m", "--by", "unit", "--format", "dir"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("'dir'"));
  ASSERT_THAT(service_.exported, SizeIs(3));
  EXPECT_TRUE(service_.exported[0].profile_only);
  EXPECT_TRUE(service_.exported[1].profile_only);
  EXPECT_FALSE(service_.exported[2].profile_only);
}

TEST_F(HistoryTest, TheLastMinutesEndNow) {
  const auto before = static_cast<std::uint64_t>(::time(nullptr)) * 1000;
  EXPECT_EQ(run({"export", "--last", "10m", "-o", out_}).code, 0);
  const auto after = static_cast<std::uint64_t>(::time(nullptr)) * 1000 + 1000;
  ASSERT_THAT(service_.exported, SizeIs(1));
  EXPECT_GE(service_.exported[0].range.since_ms, before - 600'000);
  EXPECT_LE(service_.exported[0].range.since_ms, after - 600'000);
  EXPECT_EQ(service_.exported[0].range.until_ms, TimeRange::kEndMs);
}

TEST_F(HistoryTest, TheDaemonsErrorsArePrinted) {
  service_.error = fail(ErrorCode::kNotFound, "continuous mode has kept no window", "switch it on");
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"ps"}, {"history"}, {"export", "--last", "1h", "-o", out_}}) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, kExitNotFound);
    EXPECT_EQ(ran.err, "profctl: continuous mode has kept no window\nhint: switch it on\n");
    EXPECT_EQ(ran.out, "");
  }
  EXPECT_FALSE(fs::exists(out_));
}

}  // namespace
}  // namespace profd
