// `profctl record` with real commands and a daemon that does not sample them.

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include "ctl/client/signal_watch.h"
#include "ctl/process/held_command.h"
#include "ctl/process/named_processes.h"
#include "tests/ctl/a_result.h"
#include "tests/ctl/ran.h"
#include "tests/daemon/control/running_server.h"

namespace profd {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class RecordTest : public ::testing::Test {
 protected:
  RecordTest() { give_a_result(service_); }

  Ran record(std::vector<std::string> arguments, const Screen& err_screen = {}) {
    arguments.insert(arguments.begin(), {"record", "-o", out_.string()});
    return run_with_socket(server_.socket(), arguments, {}, err_screen);
  }

  [[nodiscard]] bool wrote() const { return fs::exists(out_ / "session.json"); }

  FakeService service_;
  RunningServer server_{service_};
  TemporaryDirectory directory_;
  fs::path out_ = directory_.path() / "out";
  fs::path mark_ = directory_.path() / "mark";
};

TEST_F(RecordTest, ACommandIsRecordedFromItsExecAndItsStatusPassedOn) {
  const std::pair<const char*, int> table[] = {
      {"exit 0", 0}, {"exit 7", 7}, {"kill -9 $$", 137}, {"kill -TERM $$", 143}};
  for (const auto& [script, status] : table) {
    const Ran ran = record({"-F", "499", "--", "sh", "-c", script});
    EXPECT_EQ(ran.code, status) << script << ran.err;
    EXPECT_TRUE(wrote()) << script;
    EXPECT_EQ(ran.out, "") << "standard output is the command's";
    EXPECT_THAT(ran.err, HasSubstr("work.2.prof"));
    const StartRequest& request = service_.started.back();
    EXPECT_TRUE(request.from_exec);
    EXPECT_TRUE(request.children);
    EXPECT_EQ(request.target.pids.size(), 1u);
    EXPECT_EQ(request.frequency_hz, 499u);
    EXPECT_EQ(request.lease_ms, 30'000u);
    fs::remove_all(out_);
  }
}

TEST_F(RecordTest, JitCodeWithoutSymbolsIsReportedByRuntime) {
  auto& profiles = service_.result.summary.profiles;
  const auto names = [](const std::string& runtime, std::uint64_t samples, std::uint64_t named) {
    return JitNames{
        .runtime = runtime, .file = "", .functions = 9, .samples = samples, .named_samples = named};
  };
  profiles[0].jit = names("Perl", 100, 90);  // a tenth has none
  profiles[1].jit = names("Java", 400, 100);
  const Ran ran = record({"--", "true"});
  EXPECT_THAT(ran.err, HasSubstr("300 of 400 JIT samples (Java) have no symbols\nhint: "
                                 "'profctl record --ask-runtime"));
  EXPECT_THAT(ran.err, Not(HasSubstr("Perl")));
  fs::remove_all(out_);
  profiles[0].jit = names("", 100, 89);
  profiles[1].jit = names("", 9, 0);
  EXPECT_THAT(record({"--", "true"}).err,
              HasSubstr("20 of 109 JIT samples (unknown runtime) have no symbols\n"));
}

TEST_F(RecordTest, InterpretedCodeWithoutNamesIsReportedByRuntime) {
  auto& profiles = service_.result.summary.profiles;
  const auto names = [](const std::string& runtime, std::uint64_t named) {
    return InterpretedNames{
        .runtime = runtime, .functions = 9, .samples = 100, .named_samples = named};
  };
  profiles[0].interpreted = names("python 3.11", 90);
  profiles[1].interpreted = names("python 3.12", 89);
  const Ran ran = record({"--", "true"});
  EXPECT_THAT(ran.err, HasSubstr("11 of 100 samples of python 3.12 have functions without a name\n"
                                 "hint: 'profctl status'"));
  EXPECT_THAT(ran.err, Not(HasSubstr("python 3.11"))) << "a tenth";
}

TEST_F(RecordTest, AnInterpreterThatIsNotReadIsReportedWithTheReason) {
  auto& profiles = service_.result.summary.profiles;
  profiles[0].user_samples = 60;
  profiles[0].interpreted =
      InterpretedNames{.runtime = "python 3.13.2", .refused = "free_threaded"};
  profiles[1].user_samples = 9;  // fewer than are said
  profiles[1].interpreted =
      InterpretedNames{.runtime = "python 3.7.1", .refused = "unknown_version"};
  const Ran ran = record({"--", "true"});
  EXPECT_THAT(ran.err, HasSubstr("the functions of python 3.13.2 have no names in 60 samples: "
                                 "free_threaded\nhint: 'profctl doctor --pid PID'"));
  EXPECT_THAT(ran.err, Not(HasSubstr("python 3.7.1")));
}

TEST_F(RecordTest, StacksThatAreCutAreReportedWithTheReasons) {
  auto& profiles = service_.result.summary.profiles;
  profiles[0].user_samples = 60;
  profiles[0].incomplete = {{"depth_limit", 4}};
  profiles[1].user_samples = 40;
  profiles[1].incomplete = {{"no_row", 1}, {"depth_limit", 5}};
  EXPECT_THAT(record({"--", "true"}).err, Not(HasSubstr("entry function"))) << "a tenth";
  fs::remove_all(out_);
  profiles[1].incomplete["no_row"] = 2;
  EXPECT_THAT(record({"--", "true"}).err,
              HasSubstr("profctl: 11 of 100 user stacks do not reach the entry function: "
                        "9 depth_limit, 2 no_row (docs/api.md)\n"));
}

TEST_F(RecordTest, AJvmThatWasAskedGetsAnotherHint) {
  service_.result.summary.profiles[0].jit = JitNames{.runtime = "Java",
                                                     .file = "/tmp/perf-9.map",
                                                     .functions = 9,
                                                     .samples = 100,
                                                     .named_samples = 50};
  const Ran ran = record({"--", "true"});
  EXPECT_THAT(ran.err, HasSubstr("50 of 100 JIT samples (Java) have no symbols\nhint: "
                                 "the JVM compiled this code after it was last asked"));
  EXPECT_THAT(ran.err, Not(HasSubstr("--ask-runtime")));
}

TEST_F(RecordTest, ACommandDoesNotRunBeforeTheSessionIsThere) {
  bool ran_before = true;
  service_.on_call = [&] {
    if (service_.calls.back() == "start") ran_before = fs::exists(mark_);
  };
  EXPECT_EQ(record({"--", "touch", mark_}).code, 0);
  EXPECT_FALSE(ran_before);
  EXPECT_TRUE(fs::exists(mark_));
}

TEST_F(RecordTest, ACommandDoesNotRunWhenTheSessionCanNotStart) {
  service_.error = fail(ErrorCode::kPermissionDenied, "what", "do this");
  const Ran ran = record({"--", "touch", mark_});
  EXPECT_EQ(ran.code, 125);
  EXPECT_EQ(ran.err, "profctl: what\nhint: do this\n");
  EXPECT_FALSE(fs::exists(mark_));
}

TEST_F(RecordTest, ACommandThatDoesNotExistOrCanNotRunLeavesNothing) {
  const std::pair<const char*, int> table[] = {{"/no/such/command", 127},
                                               {"no-such-command-in-path", 127},
                                               {"/etc/passwd", 126},
                                               {"/", 126}};
  for (const auto& [command, status] : table) {
    const Ran ran = record({"--", command});
    EXPECT_EQ(ran.code, status) << command;
    EXPECT_THAT(ran.err, HasSubstr(command));
    EXPECT_FALSE(fs::exists(out_));
    EXPECT_EQ(service_.calls.back(), "remove 5f2c01ab") << "nor in the daemon";
  }
}

TEST_F(RecordTest, AFailureOfProfctlIs125AndTheCommandRunsToItsEnd) {
  const std::string script = "mkdir " + out_.string() + "; echo x > " +
                             (out_ / "session.json").string() + "; touch " + mark_.string();
  const Ran ran = record({"--", "sh", "-c", script});
  EXPECT_EQ(ran.code, 125);
  EXPECT_THAT(ran.err, HasSubstr("profctl stop 5f2c01ab -o"));
  EXPECT_TRUE(fs::exists(mark_));
}

using SignalSets = std::map<std::string, std::uint64_t>;

// The blocked and ignored signals in a /proc/PID/status, without the real-time signals: glibc's
// spawn leaves two of them ignored, which it uses itself.
SignalSets signal_sets(const std::string& status) {
  constexpr std::uint64_t kStandardSignals = 0x7fffffff;
  std::ifstream file(status);
  SignalSets sets;
  for (std::string key, value; file >> key >> value;) {
    if (key == "SigBlk:" || key == "SigIgn:")
      sets[key] = std::stoull(value, nullptr, 16) & kStandardSignals;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  EXPECT_EQ(sets.size(), 2U);
  return sets;
}

TEST_F(RecordTest, TheCommandsSignalsAreAsTheyWere) {
  // SIGPIPE and the four signals that record waits for. A signal that the parent of this test
  // ignores is ignored in the command too.
  const SignalSets ours = signal_sets("/proc/self/status");
  EXPECT_EQ(record({"--", "cp", "/proc/self/status", mark_}).code, 0);
  EXPECT_EQ(signal_sets(mark_), ours);
}

TEST_F(RecordTest, ATargetIsRecordedUntilItsSessionEnds) {
  int polls = 0;
  service_.on_session = [&](SessionInfo& info) {
    if (++polls == 2) info.state = "ended";
  };
  const Ran ran = record({"-a", "-d", "50ms"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(wrote());
  EXPECT_THAT(ran.out, HasSubstr("work.2.prof"));
  EXPECT_EQ(service_.started.back().duration_ms, 50u);
  EXPECT_EQ(service_.started.back().lease_ms, 30'000u)
      << "a record that is killed leaves no session";
  EXPECT_FALSE(service_.started.back().from_exec);
}

TEST_F(RecordTest, ATargetIsRecordedUntilItIsGone) {
  service_.on_session = [](SessionInfo& info) { info.targets_alive = false; };
  EXPECT_EQ(record({"--pid", "1234"}).code, 0);
  EXPECT_TRUE(wrote());
}

TEST_F(RecordTest, CtrlCEndsAndWrites) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    service_.on_session = [main = ::pthread_self(), signal](SessionInfo&) {
      ::pthread_kill(main, signal);
    };
    const Ran ran = record({"-a"});
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_TRUE(wrote());
    EXPECT_THAT(service_.calls, Contains("stop 5f2c01ab"));
    fs::remove_all(out_);
  }
}

TEST_F(RecordTest, ASignalThatOnlyProfctlGotIsPassedToTheCommand) {
  service_.on_session = [main = ::pthread_self()](SessionInfo&) { ::pthread_kill(main, SIGTERM); };
  const Ran ran = record({"--", "sleep", "600"});
  EXPECT_EQ(ran.code, 128 + SIGTERM);
  EXPECT_TRUE(wrote());
}

TEST_F(RecordTest, SigintToProfctlAloneEndsTheRecordingAndReachesTheCommand) {
  service_.on_session = [main = ::pthread_self()](SessionInfo&) { ::pthread_kill(main, SIGINT); };
  const Ran ran = record({"--", "sh", "-c", "trap 'exit 42' INT; while :; do sleep 0.1; done"});
  EXPECT_EQ(ran.code, 42);
  EXPECT_TRUE(wrote());
  EXPECT_THAT(ran.err, Not(HasSubstr("runs on")));
}

TEST_F(RecordTest, ATargetIsRecordedAsLongAsTheCommandRuns) {
  const Ran ran = record({"-a", "-g", "--", "sh", "-c", "exit 7"});
  EXPECT_EQ(ran.code, 7) << ran.err;
  EXPECT_TRUE(wrote());
  const StartRequest& request = service_.started.back();
  EXPECT_TRUE(request.target.all);
  EXPECT_TRUE(request.target.pids.empty());
  EXPECT_FALSE(request.from_exec);
  EXPECT_THAT(ran.err, HasSubstr("stacks are always recorded"));
}

TEST_F(RecordTest, ARecordingThatEndsBeforeItsCommandSaysSo) {
  int polls = 0;
  service_.on_session = [&](SessionInfo& info) {
    if (++polls == 2) info.state = "ended";
  };
  const Ran ran = record({"-d", "50ms", "--", "sh", "-c", "sleep 3; exit 7"});
  EXPECT_EQ(ran.code, 7);
  EXPECT_THAT(ran.err, testing::StartsWith("profctl: the recording has ended after "));
  EXPECT_THAT(ran.err, HasSubstr("; the command runs on, as pid "));
  EXPECT_TRUE(wrote());
}

// The daemon sees the end of a process before its parent can wait for it. Here it says so while the
// command still takes its time, which must not be called running on.
TEST_F(RecordTest, ACommandThatIsAboutToEndDoesNotRunOn) {
  service_.on_session = [](SessionInfo& info) { info.targets_alive = false; };
  const Ran ran = record({"--", "sh", "-c", "sleep 1; exit 7"});
  EXPECT_EQ(ran.code, 7);
  EXPECT_THAT(ran.err, Not(HasSubstr("runs on")));
  EXPECT_TRUE(wrote());
}

TEST_F(RecordTest, ACommandRunsOnWhenTheTargetBesideItIsGone) {
  service_.on_session = [](SessionInfo& info) { info.targets_alive = false; };
  const Ran ran = record({"--pid", "1234", "--", "sh", "-c", "sleep 3; exit 7"});
  EXPECT_EQ(ran.code, 7);
  EXPECT_THAT(ran.err, HasSubstr("; the command runs on, as pid "));
}

TEST_F(RecordTest, ProgressIsForTerminalsOnly) {
  int polls = 0;
  service_.on_session = [&](SessionInfo& info) {
    if (++polls % 3 == 0) info.state = "ended";
    if (polls % 3 == 1) info.state = "running";
  };
  EXPECT_EQ(record({"-a"}).err, kLossOfResult);
  fs::remove_all(out_);
  const Ran ran = record({"-a"}, Screen{.width = 80});
  EXPECT_THAT(ran.err, HasSubstr("\r\x1b[Krecording pid 1234"));
  EXPECT_THAT(ran.err, HasSubstr("495 samples  0 lost"));
  EXPECT_TRUE(ran.err.ends_with("\r\x1b[K" + kLossOfResult)) << "the line is removed at the end";
}

TEST_F(RecordTest, ProgressFitsTheTerminal) {
  const std::string start = "\r\x1b[K";
  // Each of the first letters has two bytes.
  const std::string name = "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4";
  service_.info.target.pids.clear();
  service_.info.target.comms = {name + "1", name + "2", name + "3", name + "4", name + "5"};
  service_.info.seconds = 5;
  int polls = 0;
  service_.on_session = [&](SessionInfo& info) {
    info.state = ++polls % 2 == 0 ? "ended" : "running";
  };
  for (const std::size_t width : {1U, 2U, 12U, 40U, 60U, 80U, 200U}) {
    const Ran ran = record({"-a", "-d", "1m"}, Screen{.width = width});
    fs::remove_all(out_);
    ASSERT_TRUE(ran.err.starts_with(start)) << width;
    const std::size_t end = ran.err.find(start, start.size());
    ASSERT_NE(end, std::string::npos) << width;
    const std::string line = ran.err.substr(start.size(), end - start.size());
    EXPECT_LT(columns_of(line), width);
    EXPECT_EQ(printable(line), line) << "a letter is cut";
    if (width < 60) continue;
    EXPECT_TRUE(line.starts_with("recording comm \xc3\xa4")) << line;
    EXPECT_TRUE(line.ends_with("…  5 s of 1 min  495 samples  0 lost")) << line;
  }
}

TEST_F(RecordTest, NoProgressIsMixedWithTheOutputOfACommand) {
  const Ran ran = record({"--", "sh", "-c", "sleep 1"}, Screen{.width = 80});
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.err, Not(HasSubstr("\x1b")));
}

TEST_F(RecordTest, TheCommandRunsToItsEndAfterTheDaemonIsLost) {
  service_.on_session = [this](SessionInfo&) {
    service_.error = fail(ErrorCode::kNotFound, "there is no 5f2c01ab");
  };
  const Ran ran = record({"--", "sh", "-c", "sleep 1; touch " + mark_.string()});
  EXPECT_EQ(ran.code, 125);
  EXPECT_THAT(ran.err, HasSubstr("there is no 5f2c01ab"));
  EXPECT_TRUE(fs::exists(mark_));
}

TEST(SignalWatch, LeavesTheMaskAsItWas) {
  sigset_t before;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &before);
  {
    SignalWatch watch({SIGUSR1});
    ::pthread_kill(::pthread_self(), SIGUSR1);
    const auto arrival = watch.wait(std::chrono::seconds(10));
    ASSERT_TRUE(arrival);
    EXPECT_EQ(arrival->signal, SIGUSR1);
    EXPECT_FALSE(arrival->from_terminal);
    EXPECT_FALSE(watch.wait(std::chrono::milliseconds(0)));
    ::pthread_kill(::pthread_self(), SIGUSR1);  // discarded by the destructor
  }
  sigset_t after;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int signal = 1; signal < NSIG; ++signal) {
    EXPECT_EQ(::sigismember(&before, signal), ::sigismember(&after, signal)) << signal;
  }
}

TEST(HeldCommand, NeverRunsUnlessResumed) {
  const TemporaryDirectory directory;
  const fs::path mark = directory.path() / "mark";
  sigset_t mask;
  ::sigemptyset(&mask);
  {
    const auto command =
        HeldCommand::fork({"touch", mark}, mask, HeldCommand::Output::kStandardOutput);
    ASSERT_TRUE(command);
    EXPECT_EQ(::kill(command->pid(), 0), 0);
  }
  EXPECT_FALSE(fs::exists(mark));
}

// A process of that name, until it is destroyed, of the given user.
class NamedChild {
 public:
  NamedChild(const char* name, uid_t user) {
    int ready[2] = {-1, -1};
    if (::pipe(ready) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      (void)::prctl(PR_SET_NAME, name);
      if (::setresuid(user, user, user) != 0) ::_exit(1);
      (void)::write(ready[1], "r", 1);
      for (;;) ::pause();
    }
    char byte = 0;
    (void)::read(ready[0], &byte, 1);
    ::close(ready[0]);
    ::close(ready[1]);
  }
  NamedChild(const NamedChild&) = delete;
  NamedChild& operator=(const NamedChild&) = delete;
  ~NamedChild() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_ = -1;
};

TEST_F(RecordTest, ANameThatNoProcessHadIsNotFound) {
  service_.info.state = "ended";
  service_.result.summary.ledger = {};
  const Ran ran = record({"-n", "no-such-name"});
  EXPECT_EQ(ran.code, kExitNotFound);
  EXPECT_THAT(ran.err, HasSubstr("no process matched"));
  EXPECT_FALSE(wrote());
  EXPECT_THAT(service_.calls, Contains("remove 5f2c01ab"));
  const NamedChild child("idle-name", 0);
  EXPECT_EQ(record({"-n", "no-such-name,idle-name"}).code, 0);
  EXPECT_TRUE(wrote());
}

TEST_F(RecordTest, SamplesOfANameThatNoProcessHasAnyMoreAreWritten) {
  service_.info.state = "ended";
  EXPECT_EQ(record({"-n", "no-such-name"}).code, 0);
  EXPECT_TRUE(wrote());
}

TEST(NamedProcessesTest, AreTheCallersOrThoseOfOthers) {
  const NamedChild roots("profd of root", 0);
  const NamedChild nobodys("a-name-of-nobody", 65534);  // the kernel cuts it
  EXPECT_FALSE(find_named_processes({"no-such-name"}).are_there);
  EXPECT_TRUE(find_named_processes({"a-name-of-nobody"}).are_of_caller);  // root has all
  ASSERT_EQ(::seteuid(65534), 0);
  const NamedProcesses others = find_named_processes({"profd of root"});
  const NamedProcesses own = find_named_processes({"profd of root", "a-name-of-nobo"});
  const NamedProcesses cut = find_named_processes({"a-name-of-nobody"});
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_TRUE(others.are_there);
  EXPECT_FALSE(others.are_of_caller);
  EXPECT_FALSE(own.are_of_caller) << "a part of a name";
  EXPECT_TRUE(cut.are_of_caller);
}

}  // namespace
}  // namespace profd
