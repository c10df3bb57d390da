// A mixed load that repeats itself, and what profd and its children take meanwhile: neither memory
// nor descriptors grow. SOAK_SECONDS in the environment makes it longer (make soak), and only then
// are the levels compared: the caches of the daemon must be full by the end of the first quarter.
//
// The host should do nothing else in the long form: continuous mode samples all of it.

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "tests/e2e/harness.h"
#include "tests/e2e/usage_log.h"
#include "tests/reachable_program.h"

namespace profd::e2e {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

constexpr std::chrono::seconds kShort = 5s;
constexpr auto kInterval = 1s;
constexpr auto kPause = 200ms;  // between two rounds of a load

// The median of the last quarter may be this much above that of the second. A session, a dump or
// the end of a window takes megabytes for a moment, and how many of them there are at a reading is
// chance: that moves the maximum and a fitted line, but hardly a median.
constexpr std::uint64_t kGrowthKib = 2048;
constexpr std::uint64_t kGrowthCount = 2;  // of descriptors, threads and processes

constexpr int kNoMatch = 4;  // profctl's status when no window of the range has such a process

bool is_long() { return std::getenv("SOAK_SECONDS") != nullptr; }

std::chrono::seconds soak_time() {
  return is_long() ? std::chrono::seconds(std::atoi(std::getenv("SOAK_SECONDS"))) : kShort;
}

class SoakTest : public ::testing::Test {
 protected:
  SoakTest() {
    fs::permissions(users_, fs::perms::all);
    std::ofstream(config_) << "[continuous]\nenabled = true\nfrequency = 99\nmax_age = \"1m\"\n"
                           << "window = \"" << (is_long() ? 5 : 2) << "s\"\n";
    // A copy that is being made while another thread forks is busy: that thread's child has it
    // open.
    test::reachable_program(PROFCTL_BINARY);
    Daemon::Options options;
    options.arguments = {"--config", config_};
    daemon_ = std::make_unique<Daemon>(std::move(options));
    log_ = std::make_unique<UsageLog>(std::vector<fs::path>{directory_.path(), daemon_->directory(),
                                                            workload("x").parent_path()});
  }

  static Process::Options as_somebody() {
    Process::Options options;
    options.uid = kSomebody;
    return options;
  }

  // For programs that are always busy, so that the other loads do not wait for a CPU.
  static Process::Options at_low_priority(Process::Options options = {}) {
    options.before_exec = [] { ::setpriority(PRIO_PROCESS, 0, 5); };
    return options;
  }

  // Of processes of the test alone, with more options.
  static Args with_target(Args args, const Args& more) {
    for (const char* name : {"shares", "family", "reuse"}) args.insert(args.end(), {"-n", name});
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }

  void expect_done(const Args& args, const Process::Options& as = {}) const {
    const Ended ended = daemon_->profctl(args, as);
    EXPECT_EQ(ended.status, 0) << ::testing::PrintToString(args) << ": " << ended.err;
  }

  // The loads, each of which is one round.

  void start_processes() const {
    const Ended ended = run({workload("family"), "1", "storm"});
    EXPECT_EQ(ended.status, 0) << ended.err;
  }

  // Each round is another process with another jitdump.
  void run_jit_code() const {
    Process::Options here;
    here.directory = jit_;
    EXPECT_EQ(run({workload("reuse"), "0.3"}, here).status, 0);
    remove_entries(jit_);
  }

  void record_as_root() const {
    expect_done(with_target({"record"}, {"-F", "199", "-d", "1s", "-o", roots_ / "dir"}));
    expect_done({"record", "-n", "shares", "-d", "0.5s", "-o", roots_ / "one.pb.gz"});
    remove_entries(roots_);
  }

  void dump_a_session() const {
    const Ended started = daemon_->profctl(with_target({"start"}, {"-F", "499"}));
    EXPECT_EQ(started.status, 0) << started.err;
    const std::string id = first_line(started.out);
    std::this_thread::sleep_for(500ms);
    expect_done({"dump", id, "-o", dumps_ / "first.pb.gz"});
    expect_done({"dump", id, "-o", dumps_ / "second"});
    expect_done({"stop", id, "-o", dumps_ / "third.pb.gz"});
    remove_entries(dumps_);
  }

  void read_history() const {
    expect_done({"status", "--json"});
    expect_done({"list", "--json"});
    expect_done({"history", "--last", "1m"});
    for (const char* name : {"dir", "one.pb.gz"}) {
      const Args more{"--last", "30s", "-o", exports_ / name};
      const Ended ended = daemon_->profctl(with_target({"export"}, more));
      EXPECT_THAT(ended.status, AnyOf(0, kNoMatch)) << ended.err;
    }
    remove_entries(exports_);
  }

  void record_as_user() const {
    const Args whose{"record", "--uid", std::to_string(kSomebody), "-d", "0.5s", "-o"};
    for (const char* name : {"dir", "one.pb.gz"}) {
      Args args = whose;
      args.push_back(users_ / name);
      expect_done(args, as_somebody());
    }
    expect_done({"status", "--json"}, as_somebody());
    remove_entries(users_);
  }

  static void remove_entries(const fs::path& directory) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(directory, ignored)) {
      fs::remove_all(entry.path(), ignored);
    }
  }

  struct Load {
    const char* name;
    std::function<void()> round;
    std::uint64_t rounds = 0;
  };

  // The first round of each. Afterwards the daemon has its children.
  void warm_up() {
    std::vector<std::jthread> threads;
    for (const Load& load : loads_) threads.emplace_back(load.round);
  }

  [[nodiscard]] std::uint64_t descriptors() const { return log_->usage_of(pid()).descriptors; }

  [[nodiscard]] std::uint64_t fewest_descriptors_of_a_second() const {
    std::uint64_t fewest = descriptors();
    for (int i = 0; i < 10; ++i) {
      std::this_thread::sleep_for(100ms);
      fewest = std::min(fewest, descriptors());
    }
    return fewest;
  }

  // While no load runs: those of files of a load are closed a little after it.
  [[nodiscard]] std::uint64_t idle_descriptors() const {
    std::uint64_t fewest = fewest_descriptors_of_a_second();
    for (;;) {
      const std::uint64_t next = fewest_descriptors_of_a_second();
      if (next >= fewest) return fewest;
      fewest = next;
    }
  }

  // All loads at once. A load ends with the first failure, and so does the test.
  void soak() {
    const auto end = std::chrono::steady_clock::now() + soak_time();
    std::vector<std::jthread> threads;
    for (Load& load : loads_) {
      threads.emplace_back([&load](const std::stop_token& stop) {
        while (!stop.stop_requested() && !HasFailure()) {
          load.round();
          ++load.rounds;
          std::this_thread::sleep_for(kPause);
        }
      });
    }
    for (auto next = std::chrono::steady_clock::now(); next < end && !HasFailure();) {
      log_->read(pid());
      next += kInterval;
      std::this_thread::sleep_until(next);
    }
  }

  void print(const std::vector<UsageLog::Series>& levels) const {
    for (const Load& load : loads_) {
      std::printf("%s: %llu rounds\n", load.name, static_cast<unsigned long long>(load.rounds));
    }
    std::printf("%zu readings; the medians of the second and of the last quarter\n", log_->size());
    std::printf("%-24s %21s %21s %13s %13s %9s %7s\n", "PROCESS", "PRIVATE KiB", "RESIDENT KiB",
                "DESCRIPTORS", "OTHERS' FILES", "THREADS", "COUNT");
    const auto pair = [](int width, std::uint64_t before, std::uint64_t after) {
      std::printf(" %*llu -> %*llu", width, static_cast<unsigned long long>(before), width,
                  static_cast<unsigned long long>(after));
    };
    for (const auto& [name, before, after] : levels) {
      std::printf("%-24s", name.c_str());
      pair(8, before.private_kib, after.private_kib);
      pair(8, before.resident_kib, after.resident_kib);
      pair(4, before.descriptors, after.descriptors);
      pair(4, before.others_files, after.others_files);
      pair(2, before.threads, after.threads);
      pair(1, before.processes, after.processes);
      std::printf("\n");
    }
    std::fflush(stdout);
  }

  [[nodiscard]] pid_t pid() const { return daemon_->process().pid(); }
  [[nodiscard]] fs::path made(const char* name) const {
    fs::create_directory(directory_.path() / name);
    return directory_.path() / name;
  }

  TemporaryDirectory directory_;
  fs::path config_ = directory_.path() / "profd.toml";
  fs::path roots_ = made("root");
  fs::path dumps_ = made("dumps");
  fs::path exports_ = made("exports");
  fs::path users_ = made("user");
  fs::path jit_ = made("jit");
  std::unique_ptr<Daemon> daemon_;
  std::unique_ptr<UsageLog> log_;
  Process busy_{{workload("shares"), "1000000"}, at_low_priority()};
  Process users_busy_{{workload("shares"), "1000000"}, at_low_priority(as_somebody())};
  std::vector<Load> loads_{{"processes that end", [this] { start_processes(); }},
                           {"JIT code", [this] { run_jit_code(); }},
                           {"recordings of root", [this] { record_as_root(); }},
                           {"recordings of a user", [this] { record_as_user(); }},
                           {"sessions with dumps", [this] { dump_a_session(); }},
                           {"history", [this] { read_history(); }}};
};

TEST_F(SoakTest, NeitherMemoryNorDescriptorsGrow) {
  ASSERT_TRUE(eventually([this] { return daemon_->status().continuous.windows > 0; }));
  warm_up();
  const std::uint64_t idle = idle_descriptors();
  soak();
  EXPECT_TRUE(eventually([&] { return descriptors() <= idle + kGrowthCount; }))
      << descriptors() << " descriptors, " << idle << " before";
  std::printf("%llu descriptors when idle before, %llu after\n",
              static_cast<unsigned long long>(idle),
              static_cast<unsigned long long>(descriptors()));
  const auto levels = log_->levels();
  print(levels);
  const auto of_daemon = std::ranges::find(levels, "profd", &UsageLog::Series::name);
  ASSERT_NE(of_daemon, levels.end());
  EXPECT_GT(of_daemon->after.private_kib, 0U);
  EXPECT_GT(of_daemon->after.descriptors, 0U);
  EXPECT_NE(std::ranges::find(levels, "profd-parser", &UsageLog::Series::name), levels.end());
  if (!is_long()) return;
  for (const auto& [name, before, after] : levels) {
    EXPECT_LE(after.private_kib, before.private_kib + kGrowthKib) << name;
    EXPECT_LE(after.descriptors, before.descriptors + kGrowthCount) << name;
    EXPECT_LE(after.threads, before.threads + kGrowthCount) << name;
    EXPECT_LE(after.processes, before.processes + kGrowthCount) << name;
  }
}

}  // namespace
}  // namespace profd::e2e
