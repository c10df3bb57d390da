// The interface that scripts rely on: verbs, exit codes, files, and what happens when things go
// wrong.

#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include <gmock/gmock.h>

#include "formats/profile/gperftools_reader.h"
#include "tests/e2e/lifecycle_fixture.h"

namespace profd::e2e {
namespace {

using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

TEST_F(LifecycleTest, StartPrintsTheIdAloneAndStopALineForEachFile) {
  const std::string id = start({"--pid", busy_pid_});
  EXPECT_THAT(id, Not(IsEmpty()));
  wait_for_samples(id, 50);
  const Ended stopped = daemon_.profctl({"stop", id, "-o", output_});
  ASSERT_EQ(stopped.status, 0) << stopped.err;
  const std::string profile = "shares." + busy_pid_ + ".prof";
  EXPECT_THAT(stopped.out, HasSubstr(profile));
  EXPECT_TRUE(std::filesystem::exists(output_ / profile));
  EXPECT_TRUE(std::filesystem::exists(output_ / "session.json"));
  const SessionSummary summary = read_summary(output_);
  EXPECT_EQ(summary.session, id);
  EXPECT_EQ(summary.period_us, 2004u);  // 1e6 / 499
  EXPECT_EQ(summary.ledger.difference(), 0);
}

// jemalloc's thread. Without it, what a burst has left stays with profd.
TEST_F(LifecycleTest, AThreadReturnsFreedMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer has an allocator of its own";
#endif
  const std::filesystem::path process = "/proc/" + std::to_string(daemon_.process().pid());
  const auto has_thread = [&](std::string_view wanted) {
    const auto threads = std::filesystem::directory_iterator(process / "task");
    return std::any_of(begin(threads), end(threads), [&](const auto& thread) {
      std::string name;
      return std::getline(std::ifstream(thread.path() / "comm"), name) && name == wanted;
    });
  };
  EXPECT_TRUE(eventually([&] { return has_thread("jemalloc_bg_thd"); }));
}

TEST_F(LifecycleTest, JsonAnswersAreTheDocumentedOnes) {
  const Ended started = daemon_.profctl({"start", "--json", "--pid", busy_pid_});
  ASSERT_EQ(started.status, 0);
  EXPECT_THAT(started.out, StartsWith("{\"session\":\""));
  const std::string id = started.out.substr(12, started.out.find('"', 12) - 12);
  wait_for_samples(id, 5);
  const Ended stopped = daemon_.profctl({"stop", id, "--json", "-o", output_});
  ASSERT_EQ(stopped.status, 0) << stopped.err;
  ASSERT_TRUE(parse_session_summary(stopped.out)) << stopped.out;
  EXPECT_EQ(*parse_session_summary(stopped.out), read_summary(output_));
  const std::string status = daemon_.profctl({"status", "--json"}).out;
  for (const char* key : {"\"version\"", "\"pid\"", "\"uptime_seconds\"", "\"cpu_seconds\"",
                          "\"rss_bytes\"", "\"sessions\"", "\"ledger\"", "\"taken\"", "\"sent\"",
                          "\"idle\"", "\"filtered\"", "\"lost\"", "\"difference\""}) {
    EXPECT_THAT(status, HasSubstr(key));
  }
}

// As after `profctl status | head`, whose end profctl need not explain.
TEST_F(LifecycleTest, APipeThatNobodyReadsEndsWithoutAMessage) {
  Process::Options options;
  options.before_exec = [] {
    int ends[2];
    if (::pipe(ends) != 0 || ::dup2(ends[1], STDOUT_FILENO) < 0) ::_exit(126);
    ::close(ends[0]);
    ::close(ends[1]);
  };
  const Ended ended = daemon_.profctl({"status"}, options);
  EXPECT_EQ(ended.status, 128 + SIGPIPE);
  EXPECT_EQ(ended.err, "");
}

TEST_F(LifecycleTest, AFullStandardOutputIsAFailure) {
  Process::Options options;
  options.before_exec = [] {
    const int full = ::open("/dev/full", O_WRONLY);
    if (full < 0 || ::dup2(full, STDOUT_FILENO) < 0) ::_exit(126);
  };
  const Ended ended = daemon_.profctl({"status"}, options);
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, HasSubstr("could not write to the standard output"));
}

TEST_F(LifecycleTest, DumpLeavesTheSessionRunning) {
  const std::string id = start({"--pid", busy_pid_});
  wait_for_samples(id, 50);
  ASSERT_EQ(daemon_.profctl({"dump", id, "-o", directory_.path() / "first"}).status, 0);
  wait_for_samples(id, 200);
  ASSERT_EQ(daemon_.profctl({"stop", id, "-o", output_}).status, 0);
  EXPECT_LT(read_summary(directory_.path() / "first").ledger.written,
            read_summary(output_).ledger.written);
}

TEST_F(LifecycleTest, ADurationEndsTheSessionAndKeepsItsSamplesUntilStop) {
  const std::string id = start({"-d", "1", "--pid", busy_pid_});
  EXPECT_TRUE(eventually([&] {
    const auto sessions = parse_session_list(daemon_.profctl({"list", "--json"}).out);
    return sessions && sessions->size() == 1 && (*sessions)[0].state == "ended";
  }));
  ASSERT_EQ(daemon_.profctl({"stop", id, "-o", output_}).status, 0);
  const SessionSummary summary = read_summary(output_);
  EXPECT_NEAR(summary.seconds, 1, 0.5);
  EXPECT_GT(summary.ledger.written, 0u);
  EXPECT_EQ(daemon_.profctl({"stop", id, "-o", directory_.path() / "again"}).status, 4);
}

TEST_F(LifecycleTest, NeverOverwritesAFile) {
  const std::string id = start({"--pid", busy_pid_});
  wait_for_samples(id, 5);
  std::filesystem::create_directory(output_);
  std::ofstream(output_ / "session.json") << "precious";
  EXPECT_EQ(daemon_.profctl({"stop", id, "-o", output_}).status, 1);
  EXPECT_EQ(slurp(output_ / "session.json"), "precious");
  std::filesystem::rename(output_ / "session.json", output_ / ("shares." + busy_pid_ + ".prof"));
  EXPECT_EQ(daemon_.profctl({"stop", id, "-o", output_}).status, 1);
  EXPECT_EQ(slurp(output_ / ("shares." + busy_pid_ + ".prof")), "precious");
  EXPECT_EQ(daemon_.profctl({"stop", id, "-o", directory_.path() / "free"}).status, 0);
}

TEST_F(LifecycleTest, AFullDiskLeavesNothingHalfWrittenAndTheSamplesForAnotherTry) {
  const std::filesystem::path small = directory_.path() / "small";
  std::filesystem::create_directory(small);
  ASSERT_EQ(::mount("none", small.c_str(), "tmpfs", 0, "size=4k"), 0);
  const std::string id = start({"--pid", busy_pid_});
  wait_for_samples(id, 50);
  const Ended failed = daemon_.profctl({"stop", id, "-o", small / "out"});
  EXPECT_EQ(failed.status, 1);
  EXPECT_THAT(failed.err, HasSubstr("No space left"));
  EXPECT_FALSE(std::filesystem::exists(small / "out" / "session.json"));
  const bool leftovers =
      std::filesystem::exists(small / "out") && !std::filesystem::is_empty(small / "out");
  EXPECT_FALSE(leftovers);
  EXPECT_EQ(::umount(small.c_str()), 0);
  ASSERT_EQ(daemon_.profctl({"stop", id, "-o", output_}).status, 0);
  EXPECT_EQ(read_summary(output_).ledger.difference(), 0);
}

TEST_F(LifecycleTest, RefusesWhatMakesNoSenseWithOneCauseAndAHint) {
  struct Case {
    Args args;
    int status;
    std::string message;
  };
  const std::string limit = first_line(slurp("/proc/sys/kernel/perf_event_max_sample_rate"));
  const Case cases[] = {
      {{"start", "--pid", "4000000"}, 4, "4000000"},
      {{"start", "--pid", "0"}, 2, "0"},
      {{"start", "--pid", "x"}, 2, "x"},
      {{"start"}, 2, "target"},
      {{"start", "-a", "-F", "0"}, 2, limit},
      {{"start", "-a", "-F", ""}, 2, ""},
      {{"start", "-a", "-F", "1000000000"}, 2, limit},
      {{"start", "-a", "-F", "-5"}, 2, ""},
      {{"start", "-a", "-e", "cycle"}, 2, "cycles"},
      {{"start", "-a", "-d", "yesterday"}, 2, "yesterday"},
      {{"start", "--cgroup", "/no/such/cgroup"}, 4, "/no/such/cgroup"},
      {{"start", "--uid", "no_such_user"}, 2, "no_such_user"},
      {{"stop", "0badc0de"}, 4, "0badc0de"},
      {{"stop", "../../etc"}, 4, ""},
      {{"dump", "0badc0de"}, 4, "0badc0de"},
      {{"dance"}, 2, "dance"},
      {{"record"}, 2, ""},
      {{"record", "-o", output_, "--", "/no/such/command"}, 127, "/no/such/command"},
      {{"record", "-o", output_, "--", "/etc/passwd"}, 126, "/etc/passwd"},
  };
  for (const Case& c : cases) {
    const Ended ended = daemon_.profctl(
        c.args, {.directory = directory_.path(), .uid = 0, .environment = {}, .before_exec = {}});
    EXPECT_EQ(ended.status, c.status) << ::testing::PrintToString(c.args) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr(c.message)) << ::testing::PrintToString(c.args);
    EXPECT_THAT(ended.err, Not(IsEmpty())) << ::testing::PrintToString(c.args);
  }
  EXPECT_TRUE(busy_.running());
  EXPECT_EQ(daemon_.status().sessions, 0u);
}

TEST_F(LifecycleTest, APidThatDiesDuringTheSessionHasItsProfile) {
  Process brief({workload("shares"), "1"});
  const std::string id = start({"--pid", std::to_string(brief.pid())});
  brief.wait();
  EXPECT_TRUE(eventually([&] {
    const auto sessions = parse_session_list(daemon_.profctl({"list", "--json"}).out);
    return sessions && !sessions->empty() && !(*sessions)[0].targets_alive;
  }));
  ASSERT_EQ(daemon_.profctl({"stop", id, "-o", output_}).status, 0);
  EXPECT_THAT(profiles_of(read_summary(output_), "shares"), SizeIs(1));
}

TEST_F(LifecycleTest, SessionsDoNotDisturbEachOther) {
  const std::string one = start({"--pid", busy_pid_});
  const std::string all = start({"-a"});
  const std::string slow = first_line(daemon_.profctl({"start", "-F", "99", "-n", "shares"}).out);
  wait_for_samples(one, 200);
  wait_for_samples(slow, 20);
  for (const std::string& id : {one, all, slow}) {
    const std::filesystem::path out = directory_.path() / id;
    ASSERT_EQ(daemon_.profctl({"stop", id, "-o", out}).status, 0);
    const SessionSummary summary = read_summary(out);
    EXPECT_EQ(summary.ledger.difference(), 0);
    EXPECT_THAT(
        profiles_of(summary, "shares"),
        Contains(Field(&ProfileSummary::pid, static_cast<std::uint32_t>(busy_.pid()))).Times(1));
  }
  EXPECT_THAT(read_summary(directory_.path() / one).profiles, SizeIs(1));
  EXPECT_EQ(daemon_.status().ledger.difference(), 0);
}

TEST_F(LifecycleTest, RecordPassesTheCommandsStatusOn) {
  const std::pair<std::string, int> cases[] = {{"exit 7", 7}, {"kill -9 $$", 128 + SIGKILL}};
  int n = 0;
  for (const auto& [script, status] : cases) {
    const std::filesystem::path out = directory_.path() / std::to_string(++n);
    EXPECT_EQ(daemon_.profctl({"record", "-o", out, "--", "sh", "-c", script}).status, status);
    EXPECT_TRUE(std::filesystem::exists(out / "session.json")) << script;
  }
}

TEST_F(LifecycleTest, CtrlCEndsARecordingAndWrites) {
  Process::Options options;
  options.environment["PROFD_SOCKET"] = daemon_.socket();
  Process recorder(
      daemon_.profctl_command({"record", "-F", "499", "--pid", busy_pid_, "-o", output_}), options);
  EXPECT_TRUE(eventually([&] {
    const auto sessions = parse_session_list(daemon_.profctl({"list", "--json"}).out);
    return sessions && !sessions->empty() && (*sessions)[0].samples >= 50;
  }));
  recorder.signal(SIGINT);
  EXPECT_EQ(recorder.wait().status, 0);
  EXPECT_THAT(read_summary(output_).profiles, SizeIs(1));
  EXPECT_EQ(daemon_.status().sessions, 0u);
}

TEST_F(LifecycleTest, RecordEndsWithItsTargets) {
  Process brief({workload("shares"), "1"});
  const Ended recorded =
      daemon_.profctl({"record", "--pid", std::to_string(brief.pid()), "-o", output_});
  EXPECT_EQ(recorded.status, 0) << recorded.err;
  EXPECT_THAT(read_summary(output_).profiles, SizeIs(1));
}

TEST_F(LifecycleTest, SigtermKeepsHeldSamplesForTheNextDaemon) {
  const std::string running = start({"--pid", busy_pid_});
  const std::string ended = start({"-d", "1", "--pid", busy_pid_});
  wait_for_samples(running, 600);
  EXPECT_EQ(daemon_.stop(SIGTERM).status, 0);
  EXPECT_FALSE(std::filesystem::exists(daemon_.socket()));
  EXPECT_EQ(daemon_.profctl({"status"}).status, 3);
  daemon_.start();
  for (const std::string& id : {running, ended}) {
    const std::filesystem::path out = directory_.path() / id;
    const Ended stopped = daemon_.profctl({"stop", id, "-o", out});
    ASSERT_EQ(stopped.status, 0) << stopped.err;
    const SessionSummary summary = read_summary(out);
    EXPECT_EQ(summary.ledger.difference(), 0);
    EXPECT_GT(summary.ledger.written, 10u);
  }
}

TEST_F(LifecycleTest, KillAtAnyMomentLeavesOnlyWholeProfiles) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 10; ++round) {
    const std::string id = start({"-a"});
    wait_for_samples(id, 20);
    Process::Options options;
    options.environment["PROFD_SOCKET"] = daemon_.socket();
    const std::filesystem::path out = directory_.path() / ("round" + std::to_string(round));
    Process stopper(daemon_.profctl_command({"stop", id, "-o", out}), options);
    ::usleep(static_cast<useconds_t>(random() % 60'000));
    daemon_.stop(SIGKILL);
    stopper.wait();
    daemon_.start();
    // Either profctl wrote everything, or the next daemon has the whole result, or there is
    // nothing.
    if (!std::filesystem::exists(out / "session.json")) {
      EXPECT_TRUE(!std::filesystem::exists(out) || std::filesystem::is_empty(out));
      const int status = daemon_.profctl({"stop", id, "-o", out}).status;
      EXPECT_TRUE(status == 0 || status == 4) << status;
      if (status != 0) continue;
    }
    const SessionSummary summary = read_summary(out);
    for (const ProfileSummary& profile : summary.profiles) {
      const Result<Profile> read = decode_gperftools(slurp(out / profile.path));
      ASSERT_TRUE(read) << read.error().message;
      EXPECT_EQ(read->samples(), profile.samples);
    }
  }
}

TEST_F(LifecycleTest, ASecondDaemonOnTheSameSocketIsRefusedWithTheFirstsPid) {
  const Ended second =
      run({PROFD_BINARY, "--socket", daemon_.socket(), "--state-dir", directory_.path() / "other"});
  EXPECT_EQ(second.status, 1);
  EXPECT_THAT(second.err, HasSubstr(std::to_string(daemon_.process().pid())));
  EXPECT_EQ(daemon_.profctl({"status"}).status, 0);
}

TEST_F(LifecycleTest, AStaleSocketIsNoObstacle) {
  daemon_.stop(SIGKILL);
  EXPECT_EQ(daemon_.profctl({"status"}).status, 3);
  daemon_.start();
  EXPECT_EQ(daemon_.profctl({"status"}).status, 0);
}

TEST_F(LifecycleTest, WithoutRightsItSaysWhatIsMissingAndExitsWithSix) {
  Process::Options options;
  options.uid = kNobody;
  const Ended ended = run({PROFD_BINARY, "--socket", directory_.path() / "s", "--state-dir",
                           directory_.path() / "state"},
                          options);
  EXPECT_EQ(ended.status, 6);
  EXPECT_THAT(ended.err, HasSubstr("CAP_BPF"));
  EXPECT_THAT(ended.err, HasSubstr("root"));
}

}  // namespace
}  // namespace profd::e2e
