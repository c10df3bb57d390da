// The subcommands of the history, against the real control server with a service that has windows.

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
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
  window.ended = "2026-01-02T14:06:00Z";
  window.seconds = 60;
  window.cpu_percent = 121.5;
  window.samples = 120;
  window.lost = {{"ring_full", 2}};
  window.processes = {process("nginx", 10), process("evil\x1b[31m", 0.5), process("c", 0.25),
                      process("d", 0)};
  window.processes[0].unit = "nginx.service";
  window.processes[1].container = kId;
  window.processes[2].unit = "bad\nunit";
  window.groups = {
      {.cpu_percent = 10, .name = "nginx.service", .is_unit = true, .processes = 1, .samples = 114},
      {.cpu_percent = 0.5, .name = "evil\x1b[31m", .processes = 1, .samples = 114},
      {.cpu_percent = 0.25, .name = "c", .processes = 1, .samples = 114},
      {.cpu_percent = 0, .name = "d", .processes = 1, .samples = 114}};
  return window;
}

// Two hundred short processes of a service, and a compile.
WindowShares busy_window() {
  WindowShares busy = window();
  busy.processes.clear();
  for (std::uint32_t pid = 1; pid <= 200; ++pid) {
    ProcessShare share = process(pid % 2 == 0 ? "tar" : "gzip", 0.22);
    share.pid = pid;
    share.unit = "backup.service";
    busy.processes.push_back(share);
  }
  for (std::uint32_t pid = 301; pid <= 314; ++pid) {
    ProcessShare share = process("cc1plus", 8.65);
    share.pid = pid;
    share.unit = "session-3.scope";
    busy.processes.push_back(share);
  }
  // Of the service too, though its name is that of the other group.
  busy.processes[0].comm = "cc1plus";
  busy.groups = {{.cpu_percent = 121.1, .name = "cc1plus", .processes = 14, .samples = 14 * 114},
                 {.cpu_percent = 44,
                  .name = "backup.service",
                  .is_unit = true,
                  .processes = 200,
                  .samples = 200 * 114}};
  return busy;
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

  Ran run_on_screen(const std::vector<std::string>& arguments, std::size_t width) {
    return run_with_socket(server_.socket(), arguments, Screen{.width = width});
  }
};

TEST_F(HistoryTest, PsIsATableInLocalTime) {
  const Ran ran = run({"ps"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out,
            "2026-01-02 15:05:00 to 2026-01-02 15:06:00, 1 min of samples: CPU 122 %, 120 samples, "
            "2 lost\n\n"
            "   CPU  PID  COMMAND    UNIT           CONTAINER     SAMPLES  COMPLETE  RUNTIME\n"
            "10.0 %  812  nginx      nginx.service  -                 114    99.0 %  -\n"
            " 0.5 %  812  evil?[31m  -              cccccccccccc      114    99.0 %  -\n"
            " 0.2 %  812  c          bad?unit       -                 114    99.0 %  -\n"
            " 0.0 %  812  d          -              -                 114    99.0 %  -\n");
}

// Finds microseconds that are shown as numbers of samples, and an event that is not asked for.
TEST_F(HistoryTest, HistoryOfBlocksShowsTimes) {
  service_.windows.windows[0].samples = 72'900'000;
  const Ran ran = run({"history", "--event", "off-cpu"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("OFF CPU"));
  EXPECT_THAT(ran.out, Not(HasSubstr("72900000")));
  ASSERT_FALSE(service_.asked.empty());
  EXPECT_EQ(service_.asked.back().event, "off-cpu");
  EXPECT_EQ(run({"history", "--event", "runnable"}).code, 2);
  EXPECT_EQ(run({"report", "--event", "off-cpu", "x.pb.gz"}).code, 2);
}

TEST_F(HistoryTest, PsSaysThatTheWindowIsOldWhereContinuousModeIsOff) {
  const Ran off = run({"ps"});
  EXPECT_EQ(off.code, 0);
  EXPECT_THAT(off.err, HasSubstr("continuous mode is off"));
  EXPECT_EQ(run({"ps", "--json"}).err, "");
  service_.state.continuous.enabled = true;
  EXPECT_EQ(run({"ps"}).err, "");
}

TEST_F(HistoryTest, PsIsCutToANumber) {
  const auto window = parse_window_shares(run({"ps", "--json", "-n", "1"}).out);
  ASSERT_TRUE(window);
  EXPECT_THAT(window->processes, SizeIs(1));
  EXPECT_THAT(window->groups, SizeIs(1));
  EXPECT_THAT(parse_window_shares(run({"ps", "--json"}).out)->processes, SizeIs(4));
  const Ran cut = run({"ps", "-n", "1"});
  EXPECT_THAT(cut.out, HasSubstr("nginx"));
  EXPECT_THAT(cut.out, Not(HasSubstr("evil")));
  EXPECT_THAT(cut.err, HasSubstr("3 more not shown"));
  EXPECT_THAT(service_.asked, SizeIs(0));
}

// Each is one line.
TEST_F(HistoryTest, PsRanksUnitsAndCommands) {
  service_.windows.windows = {busy_window()};
  EXPECT_EQ(
      run({"ps"}).out,
      "2026-01-02 15:05:00 to 2026-01-02 15:06:00, 1 min of samples: CPU 122 %, 120 samples, "
      "2 lost\n\n"
      "   CPU   PID  COMMAND            UNIT            CONTAINER  SAMPLES  COMPLETE  RUNTIME\n"
      " 121 %   x14  cc1plus            -               -             1596    99.0 %  -\n"
      "44.0 %  x200  cc1plus, tar, ...  backup.service  -            22800    99.0 %  -\n");
  EXPECT_THAT(run({"history"}).out, HasSubstr("cc1plus x14 121 %, backup.service 44.0 %"));
  const Ran each = run({"ps", "--processes"});
  EXPECT_THAT(each.out, HasSubstr("backup.service"));
  EXPECT_THAT(each.err, HasSubstr("194 more not shown"));
  EXPECT_EQ(run({"ps", "--processes", "--all"}).err.find("not shown"), std::string::npos);
}

TEST_F(HistoryTest, LinesFitTheTerminal) {
  WindowShares busy = busy_window();
  busy.processes[0].unit = busy.groups[1].name = std::string(200, 'u') + ".service";
  busy.processes[1].jit = JitNames{.runtime = "Node.js",
                                   .file = "jit-812.dump",
                                   .functions = 1234,
                                   .samples = 500,
                                   .named_samples = 499};
  service_.windows.windows = {busy, window()};
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"ps"}, {"ps", "--processes", "--all"}, {"history"}}) {
    for (const std::size_t width : {40U, 47U, 60U, 80U, 100U, 132U, 200U}) {
      std::istringstream lines(run_on_screen(arguments, width).out);
      std::size_t count = 0;
      for (std::string line; std::getline(lines, line); ++count) {
        EXPECT_LE(columns_of(line), width) << line;
      }
      EXPECT_GT(count, 2U) << arguments.front() << " " << width;
    }
  }
}

TEST_F(HistoryTest, ANarrowTerminalKeepsWhoUsedTheCpu) {
  service_.windows.windows = {busy_window()};
  const Ran ps = run_on_screen({"ps"}, 40);
  EXPECT_THAT(ps.out, HasSubstr("44.0 %  x200  cc1plus, ta…  backup.serv…\n"));
  EXPECT_THAT(ps.out, HasSubstr("121 %   x14  cc1plus       -\n"));
  EXPECT_THAT(ps.out, Not(HasSubstr("SAMPLES")));
  const Ran wider = run_on_screen({"ps"}, 80);
  EXPECT_THAT(wider.out, HasSubstr("cc1plus, tar, ...  backup.service"));
  EXPECT_THAT(wider.out, HasSubstr("COMPLETE"));
  EXPECT_THAT(wider.out, Not(HasSubstr("RUNTIME")));
  EXPECT_THAT(run_on_screen({"ps"}, 100).out, HasSubstr("RUNTIME"));
}

// Before the numbers behind it: a spike is seen by it.
TEST_F(HistoryTest, ANarrowTerminalLeavesOutTheBarLast) {
  service_.windows.windows = {busy_window()};
  const Ran narrow = run_on_screen({"history"}, 40);
  EXPECT_THAT(narrow.out, HasSubstr("2026-01-02 15:05:00  122 %  cc1plus x14…\n"));
  const Ran usual = run_on_screen({"history"}, 80);
  EXPECT_THAT(usual.out, HasSubstr("122 %  ████████████████  cc1plus x14 121 %"));
  EXPECT_THAT(usual.out, Not(HasSubstr("DURATION")));
  const Ran wide = run_on_screen({"history"}, 132);
  EXPECT_THAT(wide.out, HasSubstr("DURATION  SAMPLES  LOST  HOTTEST"));
  EXPECT_THAT(wide.out, HasSubstr("cc1plus x14 121 %, backup.service 44.0 %\n"));
}

TEST_F(HistoryTest, APipeGetsWholeTexts) {
  WindowShares busy = busy_window();
  const std::string unit = std::string(200, 'u') + ".service";
  busy.processes[0].unit = busy.groups[1].name = unit;
  busy.processes[0].jit = JitNames{.runtime = "Node.js",
                                   .file = "jit-812.dump",
                                   .functions = 1234,
                                   .samples = 500,
                                   .named_samples = 499};
  service_.windows.windows = {busy};
  const Ran ps = run({"ps", "--processes"});
  EXPECT_THAT(ps.out, HasSubstr(unit));
  EXPECT_THAT(ps.out, HasSubstr("Node.js 99.8 % named, 1234 functions in jit-812.dump\n"));
  EXPECT_THAT(ps.out, Not(HasSubstr("…")));
  EXPECT_THAT(run({"history"}).out, HasSubstr(unit + " 44.0 %\n"));
  service_.windows.windows[0].processes[0].interpreted =
      InterpretedNames{.runtime = "python 3.11", .samples = 1000, .named_samples = 999};
  EXPECT_THAT(run({"ps", "--processes"}).out,
              HasSubstr("python 3.11 99.9 % named; Node.js 99.8 % named, 1234 functions"));
  service_.windows.windows[0].processes[0].interpreted =
      InterpretedNames{.runtime = "python 3.13.2", .refused = "free_threaded"};
  EXPECT_THAT(run({"ps", "--processes"}).out,
              HasSubstr("python 3.13.2 not read: free_threaded; Node.js 99.8 % named"));
}

TEST_F(HistoryTest, AProcessOfSeveralNamesHasItsPid) {
  WindowShares busy = window();
  busy.processes = {process("server", 10), process("sh", 1)};
  for (ProcessShare& share : busy.processes) share.unit = "web.service";
  busy.groups = {
      {.cpu_percent = 11, .name = "web.service", .is_unit = true, .processes = 1, .samples = 228}};
  service_.windows.windows = {busy};
  EXPECT_THAT(run({"ps"}).out, HasSubstr("11.0 %  812  server, sh  web.service"));
}

TEST_F(HistoryTest, ATargetIsAskedForInTheLastWindowOrInARange) {
  EXPECT_EQ(run({"ps", "-u", "nginx", "-p", "7,8"}).code, 0);
  EXPECT_EQ(run({"ps", "--since", "2026-01-02 15:00", "--comm", "tar"}).code, 0);
  EXPECT_EQ(run({"history", "--uid", "0", "-c", "cc"}).code, 0);
  ASSERT_THAT(service_.asked, SizeIs(3));
  HistoryRequest first;
  first.range = {.since_ms = 1'767'362'700'000, .until_ms = 1'767'362'760'000};
  first.target.units = {"nginx.service"};
  first.target.pids = {7, 8};
  first.sum = true;
  EXPECT_EQ(service_.asked[0], first);
  EXPECT_EQ(service_.asked[1].range.since_ms, 1'767'362'400'000U);
  EXPECT_EQ(service_.asked[1].target.comms, std::vector<std::string>{"tar"});
  EXPECT_TRUE(service_.asked[1].sum);
  EXPECT_EQ(service_.asked[2].target.uids, std::vector<std::uint32_t>{0});
  EXPECT_FALSE(service_.asked[2].sum);
}

TEST_F(HistoryTest, WhatDidNotRunIsNotFound) {
  service_.windows.windows[0].processes.clear();
  service_.windows.windows[0].samples = 0;
  const std::pair<std::vector<std::string>, const char*> table[] = {
      {{"ps", "-u", "none"},
       "no process matched since 2026-01-02 15:05:00 until 2026-01-02 15:06:00\n"
       "hint: 'profctl ps --all' lists who ran in the last window only"},
      {{"ps", "-c", "abc", "--json"}, "no process matched since 2026-01-02 15:05:00"},
      {{"history", "--comm", "nosuch"}, "no process matched in the whole history\n"},
      {{"history", "--comm", "nosuch", "--until", "2026-01-02 16:00"},
       "no process matched until 2026-01-02 16:00:00\n"}};
  for (const auto& [arguments, text] : table) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, kExitNotFound);
    EXPECT_THAT(ran.err, HasSubstr(text));
    EXPECT_EQ(ran.out, "");
  }
}

// The daemon says so of an export, which report, flame and diff of the history are too.
TEST_F(HistoryTest, WhatMatchedNothingLeavesNothing) {
  service_.error = fail(ErrorCode::kNotFound, "no process matched", "see ps");
  const std::string file = directory_.path() / "x.svg";
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"export", "--last", "1h", "-n", "nosuch", "-o", out_},
        {"export", "--last", "1h", "-u", "nosuch", "-o", out_.string() + ".pb.gz"},
        {"report", "-n", "nosuch"},
        {"report", "-c", "abc", "--json"},
        {"flame", "--last", "1h", "-u", "nosuch", "-o", file},
        {"diff", "1h ago..30m ago", "30m ago..", "-n", "nosuch"}}) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, kExitNotFound) << testing::PrintToString(arguments);
    EXPECT_THAT(ran.err, HasSubstr("no process matched")) << testing::PrintToString(arguments);
    EXPECT_EQ(ran.out, "") << testing::PrintToString(arguments);
  }
  EXPECT_FALSE(fs::exists(out_));
  EXPECT_FALSE(fs::exists(out_.string() + ".pb.gz"));
  EXPECT_FALSE(fs::exists(file));
}

TEST_F(HistoryTest, ATimeWithoutWindowsHasTheTimesThatThereAre) {
  service_.windows.windows.clear();
  service_.state.continuous.oldest = "2026-01-02T10:00:00Z";
  service_.state.continuous.last_written = "2026-01-02T14:06:00Z";
  for (const char* subcommand : {"ps", "history"}) {
    const Ran ran = run({subcommand, "--since", "2200-01-01 00:00"});
    EXPECT_EQ(ran.code, kExitNotFound);
    EXPECT_EQ(ran.err,
              "profctl: no windows since 2200-01-01 00:00:00 (that is in the future)\n"
              "hint: the history is from 2026-01-02 11:00:00 to 2026-01-02 15:06:00\n");
  }
}

// The daemon refuses exports alone.
TEST_F(HistoryTest, WhatShowsSamplesSaysTheSameOfATimeWithoutWindows) {
  service_.windows.windows.clear();
  service_.state.continuous.oldest = "2026-01-02T10:00:00Z";
  service_.state.continuous.last_written = "2026-01-02T14:06:00Z";
  service_.on_call = [this] {
    service_.error.reset();
    if (service_.calls.back() != "export") return;
    service_.error = fail(ErrorCode::kNotFound, "no window of continuous mode is in this range");
  };
  const std::string time = "@1767362700..@1767362760";
  const std::string file = directory_.path() / "x.svg";
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"report", time},
        {"report", time, "-n", "nginx"},
        {"flame", time, "-o", file},
        {"diff", time, "1h ago.."},
        {"web", "--port", "0", time},
        {"debuginfo", "list", "--since", "@1767362700", "--until", "@1767362760"},
        {"export", "--since", "@1767362700", "--until", "@1767362760", "-o", out_}}) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, kExitNotFound) << arguments.front();
    EXPECT_EQ(ran.out, "") << arguments.front();
    EXPECT_EQ(ran.err,
              "profctl: no windows since 2026-01-02 15:05:00 until 2026-01-02 15:06:00\n"
              "hint: the history is from 2026-01-02 11:00:00 to 2026-01-02 15:06:00\n")
        << arguments.front();
  }
}

TEST_F(HistoryTest, WhatMatchedNothingHasItsTime) {
  service_.on_call = [this] {
    service_.error.reset();
    if (service_.calls.back() != "export") return;
    service_.error = fail(ErrorCode::kNotFound, "no process matched", "see ps");
  };
  EXPECT_EQ(run({"report", "@1767362700..@1767362760", "-n", "nosuch"}).err,
            "profctl: no process matched since 2026-01-02 15:05:00 until 2026-01-02 15:06:00\n"
            "hint: see ps\n");
}

TEST_F(HistoryTest, HistoryShowsTheHottestOfEachWindow) {
  service_.windows.left_out = 7;
  const Ran ran = run({"history", "--last", "1h", "-n", "5"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out,
            "STARTED                CPU                    DURATION  SAMPLES  LOST  HOTTEST\n"
            "2026-01-02 15:05:00  122 %  ████████████████  1 min         120     2  "
            "nginx.service 10.0 %, evil?[31m 0.5 %, c 0.2 %\n");
  EXPECT_THAT(ran.err, HasSubstr("7 older windows"));
  ASSERT_THAT(service_.asked, SizeIs(1));
  EXPECT_EQ(service_.asked[0].limit, 5u);
  EXPECT_EQ(run({"history", "--json"}).out, to_json(service_.windows) + "\n");
}

// Windows of a minute from 14:00 on, of which `used` has samples.
std::vector<WindowShares> minutes(std::size_t count, std::size_t used) {
  std::vector<WindowShares> windows;
  windows.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    WindowShares one = window();
    const auto utc_of = [](std::size_t minute) {
      return std::string("2026-01-02T14:") + (minute < 10 ? "0" : "") + std::to_string(minute) +
             ":00Z";
    };
    one.started = utc_of(i);
    one.ended = utc_of(i + 1);
    if (i != used) {
      one.samples = 0;
      one.cpu_percent = 0;
      one.groups.clear();
      one.processes.clear();
    }
    windows.push_back(std::move(one));
  }
  return windows;
}

// The target is in one window of 30, the 4th; the daemon gives the newest 20, then the rest.
TEST_F(HistoryTest, ATargetIsFoundBehindTheNewestWindows) {
  const std::vector<WindowShares> all = minutes(30, 3);
  service_.on_call = [this, &all] {
    if (service_.calls.back() != "history") return;
    const bool is_first = service_.asked.empty();
    service_.windows.left_out = is_first ? 10 : 0;
    service_.windows.windows = is_first ? std::vector<WindowShares>(all.begin() + 10, all.end())
                                        // The last of them was in the answer before, too.
                                        : std::vector<WindowShares>(all.begin(), all.begin() + 11);
  };
  const Ran ran = run({"history", "--comm", "nginx"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("2026-01-02 15:03:00  122 %"));
  EXPECT_THAT(ran.out, Not(HasSubstr("2026-01-02 15:10:00")));
  EXPECT_EQ(ran.err, "profctl: 29 windows without the target are not shown\n");
  ASSERT_THAT(service_.asked, SizeIs(2));
  EXPECT_EQ(service_.asked[0].limit, 20U);
  EXPECT_EQ(service_.asked[1].range.until_ms, 1'767'363'000'000U);  // 14:10, as `date` has it
  EXPECT_EQ(service_.asked[1].target, service_.asked[0].target);
  service_.asked.clear();
  const auto json = parse_history(run({"history", "--comm", "nginx", "--json"}).out);
  ASSERT_TRUE(json);
  ASSERT_THAT(json->windows, SizeIs(1));
  EXPECT_EQ(json->windows[0].started, "2026-01-02T14:03:00Z");
}

TEST_F(HistoryTest, TheLimitCountsWindowsOfTheTarget) {
  service_.windows.windows = minutes(5, 1);
  service_.windows.windows[3] = service_.windows.windows[1];
  service_.windows.windows[3].started = "2026-01-02T14:03:00Z";
  const Ran ran = run({"history", "--comm", "nginx", "-n", "1"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("2026-01-02 15:03:00"));
  EXPECT_THAT(ran.out, Not(HasSubstr("2026-01-02 15:01:00")));
  EXPECT_THAT(ran.err, HasSubstr("3 older windows not shown"));
  EXPECT_THAT(ran.err, HasSubstr("1 window without the target is not shown\n"));
  const Ran whole = run({"history", "-n", "5"});
  EXPECT_THAT(whole.out, HasSubstr("2026-01-02 15:00:00"));
}

// A daemon with a bug says for ever that there are older windows.
TEST_F(HistoryTest, RequestsForATargetEnd) {
  service_.windows.windows = minutes(2, 9);
  service_.windows.left_out = 7;
  EXPECT_EQ(run({"history", "--comm", "nginx"}).code, kExitNotFound);
  EXPECT_THAT(service_.asked, SizeIs(2)) << "the second answer had nothing older";
  service_.asked.clear();
  service_.on_call = [this] {
    const std::size_t number = 19 - service_.asked.size() % 20;
    WindowShares one = minutes(20, 99).at(number);
    service_.windows.windows = {one};
  };
  const Ran ran = run({"history", "--comm", "nginx"});
  EXPECT_EQ(ran.code, kExitNotFound);
  EXPECT_THAT(ran.err, HasSubstr("no process matched since 2026-01-02 15:00:00\n"));
  EXPECT_THAT(service_.asked, SizeIs(20));
}

TEST_F(HistoryTest, BarsAreAsLongAsTheirPartOfTheLargest) {
  service_.windows.windows.assign(4, window());
  const std::vector<std::pair<double, std::string>> bars = {
      {200, "200 %  ████████████████  1 min"},
      {100, "100 %  ████████          1 min"},
      {12.5, "12.5 %  █                 1 min"},
      {0, "0.0 %                    1 min"}};
  for (std::size_t i = 0; i < bars.size(); ++i) {
    service_.windows.windows[i].cpu_percent = bars[i].first;
  }
  const std::string out = run({"history"}).out;
  for (const auto& [percent, line] : bars) EXPECT_THAT(out, HasSubstr(line)) << percent;
  for (WindowShares& idle : service_.windows.windows) idle.cpu_percent = 0;
  EXPECT_THAT(run({"history"}).out, HasSubstr("0.0 %  1 min"));
}

// In a thread, which has ids of its own.
Ran run_as_user(const std::filesystem::path& socket, const std::vector<std::string>& arguments) {
  constexpr uid_t kUser = 4711;
  Ran ran;
  std::thread([&] {
    const bool became = ::syscall(SYS_setgroups, 0, nullptr) == 0 &&
                        ::syscall(SYS_setresgid, kUser, kUser, kUser) == 0 &&
                        ::syscall(SYS_setresuid, kUser, kUser, kUser) == 0;
    if (became) ran = run_with_socket(socket, arguments);
  }).join();
  return ran;
}

TEST_F(HistoryTest, AnUnprivilegedUserIsToldThatOthersAreHidden) {
  service_.state.continuous.enabled = true;
  const std::string text =
      "profctl: only your own processes are shown: root and the group profd see all\n";
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"ps"}, {"ps", "--last", "1h"}, {"history"}}) {
    const Ran users = run_as_user(server_.socket(), arguments);
    EXPECT_EQ(users.code, 0) << "needs root: " << users.err;
    EXPECT_EQ(users.err, text) << arguments.front();
    const Ran roots = run(arguments);
    EXPECT_EQ(roots.err, "") << arguments.front();
    EXPECT_THAT(users.out, HasSubstr("nginx.service")) << arguments.front();
    EXPECT_THAT(roots.out, HasSubstr("nginx.service")) << arguments.front();
    std::vector<std::string> with_json = arguments;
    with_json.emplace_back("--json");
    EXPECT_EQ(run_as_user(server_.socket(), with_json).err, "") << arguments.front();
  }
}

// The daemon then has no counts, which are not zero: here too, though this one has them.
TEST_F(HistoryTest, LostSamplesThatAreNotKnownAreNotCounted) {
  const std::string heading =
      "2026-01-02 15:05:00 to 2026-01-02 15:06:00, 1 min of samples: CPU 122 %, 120 samples\n\n";
  for (const Ran& ps : {run({"ps", "-u", "nginx"}), run({"ps", "-p", "812", "--last", "1h"}),
                        run_as_user(server_.socket(), {"ps"})}) {
    EXPECT_EQ(ps.code, 0) << ps.err;
    EXPECT_THAT(ps.out, testing::StartsWith(heading));
  }
  for (const Ran& history :
       {run({"history", "--comm", "nginx"}), run_as_user(server_.socket(), {"history"})}) {
    EXPECT_EQ(history.code, 0) << history.err;
    EXPECT_THAT(history.out, HasSubstr("  LOST  HOTTEST\n"));
    EXPECT_THAT(history.out, HasSubstr("  120     -  nginx.service 10.0 %"));
  }
  EXPECT_EQ(run({"history", "-u", "nginx", "--json"}).out, to_json(service_.windows) + "\n");
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

TEST_F(HistoryTest, ANumberAsNameIsExplainedWhereNothingMatched) {
  service_.error = fail(ErrorCode::kNotFound, "no process matched", "see ps");
  const Ran ran = run({"export", "--last", "1h", "-n", "20", "-o", out_});
  EXPECT_EQ(ran.code, kExitNotFound);
  EXPECT_THAT(ran.err, HasSubstr("hint: -n is --comm here, the name of a process; "));
  EXPECT_THAT(ran.err, HasSubstr("--limit 20; see ps\n"));
  EXPECT_THAT(run({"export", "--last", "1h", "-n", "tar20", "-o", out_}).err,
              HasSubstr("no process matched\nhint: see ps\n"));
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
