// What the system does to a daemon: a CPU that goes, a daemon that does not get to run, descriptors
// that are used up. Nothing is lost in silence, and what comes next works.

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "tests/e2e/faults_fixture.h"

namespace profd::e2e {
namespace {

using std::chrono_literals::operator""s;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(FaultsTest, ADaemonThatDoesNotRunForFiveSecondsLosesNothingAt99Hertz) {
  const std::string id = start({"-a"});
  wait_for_samples(id, 20);
  const std::uint64_t before = session(id)->samples;
  daemon_.process().signal(SIGSTOP);
  std::this_thread::sleep_for(5s);
  daemon_.process().signal(SIGCONT);
  // 99 Hz on the CPU that the workload keeps busy, with some room for a CPU that others want too.
  wait_for_samples(id, before + 5 * 99 / 2);
  const std::filesystem::path out = directory_.path() / "out";
  ASSERT_EQ(daemon_.profctl({"stop", id, "-o", out}).status, 0);
  EXPECT_THAT(read_summary(out).ledger.lost, IsEmpty());
  expect_whole(out);
  EXPECT_EQ(daemon_.status().ledger.difference(), 0);
}

class SmallRingTest : public FaultsTest {
 protected:
  SmallRingTest() : FaultsTest({.arguments = {"--config", config_file()}, .process = {}}) {}

  static std::filesystem::path config_file() {
    static const TemporaryDirectory directory;
    const std::filesystem::path file = directory.path() / "profd.toml";
    std::ofstream(file) << "ring_bytes = 65536\n";
    return file;
  }
};

TEST_F(SmallRingTest, ADaemonThatDoesNotRunForLongerLosesByAnExactCount) {
  const std::string id = start({"--pid", busy_pid_, "-F", "999"});
  wait_for_samples(id, 100);
  daemon_.process().signal(SIGSTOP);
  std::this_thread::sleep_for(5s);
  daemon_.process().signal(SIGCONT);
  const std::filesystem::path out = directory_.path() / "out";
  ASSERT_EQ(daemon_.profctl({"stop", id, "-o", out}).status, 0);
  const SessionSummary summary = read_summary(out);
  EXPECT_EQ(summary.ledger.difference(), 0);
  EXPECT_GT(summary.ledger.lost.at("ring_full"), 500U);
  EXPECT_THAT(summary.ledger.lost, SizeIs(1));
  EXPECT_EQ(summary.ledger.taken, summary.ledger.written + summary.ledger.lost.at("ring_full"));
  EXPECT_EQ(daemon_.status().ledger.difference(), 0);
  std::printf("%lu taken = %lu written + %lu lost\n", summary.ledger.taken, summary.ledger.written,
              summary.ledger.lost.at("ring_full"));
}

// The last CPU, off; on again when the object goes.
class OfflineCpu {
 public:
  OfflineCpu() : cpu_(::sysconf(_SC_NPROCESSORS_ONLN) - 1) { set("0"); }
  OfflineCpu(const OfflineCpu&) = delete;
  OfflineCpu& operator=(const OfflineCpu&) = delete;
  ~OfflineCpu() { set("1"); }

  [[nodiscard]] long cpu() const { return cpu_; }

 private:
  void set(const char* state) {
    std::ofstream("/sys/devices/system/cpu/cpu" + std::to_string(cpu_) + "/online") << state;
  }
  long cpu_;
};

// Kept on one CPU, so that what is sampled of it is sampled there.
Process::Options pinned_to(long cpu) {
  Process::Options options;
  options.before_exec = [cpu] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<std::size_t>(cpu), &set);
    ::sched_setaffinity(0, sizeof set, &set);
  };
  return options;
}

TEST_F(SmallRingTest, SessionsOfUsersLeaveHalfOfTheRingToOthers) {
  Process::Options as_user;
  as_user.uid = kSomebody;
  Process::Options users_on_first_cpu = pinned_to(0);
  users_on_first_cpu.uid = kSomebody;
  const Process roots({workload("shares"), "600"}, pinned_to(0));
  const Process users({workload("shares"), "600"}, users_on_first_cpu);
  const std::string id = start({"--pid", std::to_string(roots.pid()), "-F", "49"});
  const Args of_user{"start", "--pid", std::to_string(users.pid()), "-F", "997"};
  const Ended started = daemon_.profctl(of_user, as_user);
  ASSERT_EQ(started.status, 0) << started.err;
  const std::string users_id = first_line(started.out);
  wait_for_samples(users_id, 10);
  daemon_.process().signal(SIGSTOP);
  std::this_thread::sleep_for(2s);
  daemon_.process().signal(SIGCONT);
  const std::filesystem::path out = directory_.path() / "out";
  const std::filesystem::path users_out = directory_.path() / "users_out";
  ASSERT_EQ(daemon_.profctl({"stop", id, "-o", out}).status, 0);
  ASSERT_EQ(daemon_.profctl({"stop", users_id, "-o", users_out}).status, 0);
  EXPECT_THAT(read_summary(out).ledger.lost, IsEmpty());
  const SessionLedger users_ledger = read_summary(users_out).ledger;
  EXPECT_GT(users_ledger.lost.at("ring_share"), 100U);
  EXPECT_THAT(users_ledger.lost, SizeIs(1));
  EXPECT_EQ(users_ledger.difference(), 0);
  EXPECT_EQ(daemon_.status().ledger.difference(), 0);
}

TEST_F(FaultsTest, ACpuThatComesBackIsSampledAgainAndTheGapIsRecorded) {
  ASSERT_GE(::sysconf(_SC_NPROCESSORS_ONLN), 2);
  const std::string id = start({"-n", "reader", "-F", "99"});
  wait_for_samples(start({"--pid", busy_pid_}), 10);
  long cpu = 0;
  {
    const OfflineCpu offline;
    cpu = offline.cpu();
    std::this_thread::sleep_for(2s);
    EXPECT_EQ(daemon_.status().cpu_gaps.count, 0U);
  }
  const auto back = std::chrono::steady_clock::now();
  const Process pinned({workload("reader"), "600"}, pinned_to(cpu));
  wait_for_samples(id, 1);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - back;
  std::printf("sampled %.2f s after the CPU came back\n", took.count());
  EXPECT_LE(took.count(), 30.0);
  const StatusInfo status = daemon_.status();
  EXPECT_EQ(status.cpu_gaps.count, 1U);
  EXPECT_GE(status.cpu_gaps.seconds, 1.0);
  EXPECT_LE(status.cpu_gaps.seconds, 2.0 + took.count() + 4.0);
  EXPECT_EQ(status.ledger.difference(), 0);
}

class FewDescriptorsTest : public FaultsTest {
 protected:
  FewDescriptorsTest() : FaultsTest({.arguments = {}, .process = with_limit()}) {}

  // As a unit's LimitNOFILE does, so hard and soft. profd itself takes about 111 on two CPUs, and
  // up to half of the limit for mapped files: for all of a busy host when it starts.
  static Process::Options with_limit() {
    Process::Options options;
    options.before_exec = [] {
      const rlimit limit{.rlim_cur = 240, .rlim_max = 240};
      ::setrlimit(RLIMIT_NOFILE, &limit);
    };
    return options;
  }
};

TEST_F(FewDescriptorsTest, WithoutDescriptorsItLivesAndCountsAndGoesOn) {
  const std::string id = start({"--pid", busy_pid_, "-F", "99"});
  wait_for_samples(id, 10);
  {
    std::vector<std::unique_ptr<Process>> clients;
    for (int i = 0; i < 140; ++i) {
      clients.push_back(std::make_unique<Process>(
          Args{"python3", "-c",
               "import socket, sys, time; s = socket.socket(socket.AF_UNIX);"
               "s.connect(sys.argv[1]); time.sleep(60)",
               daemon_.socket()}));
    }
    EXPECT_TRUE(eventually([&] {
      return daemon_.process().err().find("could not accept a connection") != std::string::npos;
    }));
  }
  const StatusInfo status = daemon_.status();
  EXPECT_GE(status.connections.starved, 1U);
  EXPECT_EQ(status.ledger.difference(), 0);
  const std::filesystem::path out = directory_.path() / "out";
  ASSERT_EQ(daemon_.profctl({"stop", id, "-o", out}).status, 0);
  expect_whole(out);
}

}  // namespace
}  // namespace profd::e2e
