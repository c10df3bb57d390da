// All attacks at once, by several users, beside a compile job of root: root is answered, nothing
// of root's is lost, and the windows have root's samples. The long form (make attack) limits how
// long root waits, and what memory profd takes and gives back, which depends on what else the host
// does.

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "daemon/history/window_file.h"
#include "formats/api/session_summary.h"
#include "formats/api/status_info.h"
#include "formats/proc/stat.h"
#include "tests/collectors/jit/scattered_rows.h"
#include "tests/daemon/control/raw_client.h"
#include "tests/e2e/cpu_groups.h"
#include "tests/e2e/harness.h"
#include "tests/e2e/usage_log.h"
#include "tests/hostile/attack.h"
#include "tests/hostile/attack_figures.h"
#include "tests/hostile/roots_poll.h"
#include "tests/hostile/roots_recordings.h"
#include "tests/lingering_socket.h"
#include "tests/reachable_program.h"

namespace profd::e2e {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using std::chrono_literals::operator""s;
using std::chrono_literals::operator""ms;

constexpr std::uint64_t kMemoryAfterwardsKib = 10 << 10;
constexpr std::uint64_t kDescriptorsAfterwards = 16;
// The names of users' programs are dropped after NameCache::kUnused, and checked each minute.
constexpr auto kGivenBackIn = 240s;
constexpr int kFrequency = 97;
constexpr std::size_t kAreas = 1800;  // of a jitdump
constexpr auto kRecordEach = 10s;
constexpr uid_t kThirdAttacker = 12'346;
constexpr uid_t kFourthAttacker = 12'347;
const std::string kNewDirectory = "NEW_DIRECTORY";  // an argument that stands for one

// A program that attacks until it ends, again and again.
struct AttackProgram {
  uid_t uid = 0;
  Args command;
  const char* last_line = nullptr;  // of one that does not end by itself
};

class HostileTogetherTest : public ::testing::Test {
 protected:
  HostileTogetherTest() {
    for (const fs::path& shared : {jit_, floods_}) {
      fs::create_directory(shared);
      fs::permissions(shared, fs::perms(01777));
    }
    std::ofstream(config_) << "[continuous]\nenabled = true\nwindow = \"5s\"\nfrequency = "
                           << kFrequency << "\n[jit]\ndirectories = [\"" << jit_.native()
                           << "\"]\n";
    Daemon::Options options;
    options.arguments = {"--config", config_};
    options.process.before_exec = groups_.of_profd();
    daemon_ = std::make_unique<Daemon>(std::move(options));
    log_ =
        std::make_unique<UsageLog>(std::vector<fs::path>{directory_.path(), daemon_->directory()});
  }

  [[nodiscard]] fs::path socket(const char* name) const {
    return daemon_->socket().parent_path() / name;
  }

  [[nodiscard]] Usage usage() { return log_->usage_with_children(daemon_->process().pid()); }

  // The least of some seconds, in which what a request needs for a moment is freed.
  std::uint64_t resting_memory_kib() {
    std::uint64_t least = UINT64_MAX;
    for (int i = 0; i < 20; ++i) {
      least = std::min(least, usage().resident_kib);
      std::this_thread::sleep_for(100ms);
    }
    return least;
  }

  void record_as_root() {
    const fs::path output = directory_.path() / "record.pb.gz";
    const auto began = Clock::now();
    const Ended ended = daemon_->profctl({"record", "-n", "shares", "-d", "1s", "-o", output});
    slowest_record_ = std::max(slowest_record_, Clock::now() - began);
    EXPECT_EQ(ended.status, 0) << ended.err;
    fs::remove(output);
  }

  // Meanwhile root records by profctl, too.
  UsageInAttack watch_attacks(Clock::time_point end) {
    UsageInAttack seen;
    slowest_record_ = Clock::duration::zero();
    for (auto next_record = Clock::now(); Clock::now() < end;) {
      seen.add(usage());
      std::this_thread::sleep_for(250ms);
      if (Clock::now() < next_record) continue;
      record_as_root();
      next_record = Clock::now() + kRecordEach;
    }
    return seen;
  }

  [[nodiscard]] Process::Options as(uid_t uid) const {
    Process::Options options;
    options.uid = uid;
    options.before_exec = groups_.of_users();
    return options;
  }

  // The attacks that are programs.
  void repeat(const AttackProgram& attack, const std::stop_token& stop) {
    Process::Options as_user = as(attack.uid);
    const auto is_over = [&](Process& process) {
      return stop.stop_requested() || !process.running() ||
             (attack.last_line != nullptr &&
              process.out().find(attack.last_line) != std::string::npos);
    };
    while (!stop.stop_requested()) {
      const fs::path made = floods_ / std::to_string(++directories_);
      Args command = attack.command;
      std::ranges::replace(command, kNewDirectory, made.native());
      {
        Process process(command, as_user);
        eventually([&] { return is_over(process); }, 600s);
      }
      fs::remove_all(made);
      ++rounds_;
    }
  }

  RawAnswer ask(uid_t uid, const char* method, const std::string& path,
                const std::string& body = {}) const {
    RawClient client;
    client.connect_as(daemon_->socket(), uid, uid);
    return client.ask(method, path, body);
  }

  // The attacks that are requests. A door that is replaced ends their connections, and root's
  // tests say what answers there must be.

  void start_and_stop_sessions(uid_t uid) const {
    std::vector<std::string> ids;
    for (int i = 0; i < 4; ++i) {
      const RawAnswer answer = ask(uid, "POST", "/v1/sessions",
                                   "{\"target\":{\"uids\":[" + std::to_string(uid) +
                                       "]},\"frequency\":" + std::to_string(996 + i) + "}");
      const std::size_t id = answer.body.find(':') + 2;
      if (answer.status == 201) ids.push_back(answer.body.substr(id, 8));
    }
    std::this_thread::sleep_for(1s);
    std::vector<std::jthread> stops;
    for (const std::string& id : ids) {
      stops.emplace_back([this, uid, id] {
        ask(uid, "POST", "/v1/sessions/" + id + "/stop");
        ask(uid, "DELETE", "/v1/results/" + id);
      });
    }
  }

  void ask_for_much(uid_t uid) const {
    for (const char* path : {"/v1/status", "/metrics", "/v1/sessions", "/v1/windows",
                             "/debug/pprof/profile?seconds=1", "/no/such"}) {
      ask(uid, "GET", path);
    }
  }

  void send_lingering_descriptors(uid_t uid) const {
    test::LingeringSocket attack = test::make_lingering(3);
    RawClient user;
    user.connect_as(daemon_->socket(), uid, uid);
    test::send_descriptor(user.fd(), attack.lingers.get());
    attack.lingers.reset();
    std::this_thread::sleep_for(100ms);
  }

  // Perf maps of processes that are not there, and a jitdump with code all over the memory.
  void write_jit_files(uid_t uid) {
    constexpr int kNoPid = 5'000'000;
    const Process runtime({workload("shares"), "10"}, as(uid));
    const std::string pid = std::to_string(runtime.pid());
    write_as(uid, jit_ / ("jit-" + pid + ".dump"),
             test::dump_of_scattered_rows(runtime.pid(), kAreas));
    for (int i = 0; i < 2000; ++i) {
      const std::string nobody = std::to_string(kNoPid + i);
      write_as(uid, jit_ / ("perf-" + nobody + ".map"), "1000 10 name\n");
    }
    std::this_thread::sleep_for(1s);
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(jit_, ignored)) fs::remove(entry, ignored);
  }

  static void write_as(uid_t uid, const fs::path& path, const std::string& content) {
    std::ofstream(path) << content;
    EXPECT_EQ(::chown(path.c_str(), uid, uid), 0);
  }

  // False where it took too long: the users' processes hold locks of the kernel that it needs.
  bool compile() {
    const fs::path source = directory_.path() / "compiled.cc";
    std::ofstream(source) << "#include <functional>\n#include <regex>\n"
                             "bool f(const char* s) { return std::regex_match(s, "
                             "std::regex(\"a+b\")); }\n";
    Process::Options service;
    service.before_exec = groups_.of_services();
    const Args compiler{"c++", "-std=c++20", "-O1", "-c", source, "-o", "/dev/null"};
    if (run(compiler, service).status != 0) return false;
    ++compiled_;
    return true;
  }

  // What profd keeps of root's own programs, such as the names of compilers, is no attacker's.
  void run_roots_job() {
    const auto windows = [this] { return daemon_->status().continuous.windows; };
    const std::uint64_t enough = windows() + 3;
    const auto has_enough = [&] {
      EXPECT_TRUE(compile());
      return windows() >= enough;
    };
    EXPECT_TRUE(eventually(has_enough, 120s));
  }

  void start_attacks() {
    const std::string many_maps = std::to_string(attack_count(20'000, 60'000));
    const std::string many_processes = std::to_string(attack_count(1'000, 10'000));
    std::vector<AttackProgram> programs{
        {kNobody, {workload("name_flood"), "20", "2", floods_}},
        {kThirdAttacker, {workload("crowd"), "maps", many_maps, "4"}},
        {kThirdAttacker, {workload("crowd"), "forks", many_maps, "4"}},
        {kFourthAttacker, {workload("crowd"), "processes", many_processes, "4"}},
        {kFourthAttacker, {workload("storm"), "4"}},
        {kSomebody, {APP_DESCRIPTORS, socket("app.sock"), "3000", "4"}, "closed"},
    };
    for (int i = 0; i < 5; ++i) {
      programs.push_back({kSomebody, {MAPPING_FLOOD, kNewDirectory, "10"}});
    }
    // A copy that is being made while another thread forks is busy: that thread's child has it
    // open.
    for (const AttackProgram& program : programs) test::reachable_program(program.command[0]);
    test::reachable_program(workload("shares"));
    for (const AttackProgram& program : programs) {
      attacks_.emplace_back(
          [this, program](const std::stop_token& stop) { repeat(program, stop); });
    }
    for (const uid_t uid : {kSomebody, kFourthAttacker}) {
      attack_with([this, uid] { start_and_stop_sessions(uid); });
      attack_with([this, uid] { ask_for_much(uid); });
    }
    attack_with([this] { send_lingering_descriptors(kThirdAttacker); });
    attack_with([this] { write_jit_files(kThirdAttacker); });
    attack_with([this] { (void)compile(); });
  }

  void attack_with(const std::function<void()>& round) {
    attacks_.emplace_back([round](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        try {
          round();
        } catch (const std::exception&) {  // the door is being replaced
        }
      }
    });
  }

  // Of root's own load: what the windows on the disk have, and what they cover.
  struct Kept {
    std::uint64_t samples = 0;
    double seconds = 0;
    CountsByReason lost{};
  };
  [[nodiscard]] Kept kept_of(pid_t pid) const {
    Kept kept;
    for (const auto& entry : fs::directory_iterator(daemon_->state() / "windows")) {
      const std::string name = entry.path().stem().stem();
      const auto window = WindowFile::open(entry.path().parent_path(), name);
      EXPECT_TRUE(window) << name;
      if (!window) continue;
      kept.seconds += window->summary().seconds;
      for (const auto& [reason, count] : window->summary().ledger.lost) kept.lost[reason] += count;
      for (const ProfileSummary& profile : window->summary().profiles) {
        if (profile.pid == static_cast<std::uint32_t>(pid)) kept.samples += profile.samples;
      }
    }
    return kept;
  }

  TemporaryDirectory directory_;
  fs::path config_ = directory_.path() / "profd.toml";
  // Apart, since removed files stay open for DirectoryWatch::kMaxUnlinked.
  TemporaryDirectory jit_directory_;
  fs::path jit_ = jit_directory_.path() / "jit";
  fs::path floods_ = directory_.path() / "floods";
  CpuGroups groups_;  // as systemd makes them: else profd would be one of thousands of processes
  std::unique_ptr<Daemon> daemon_;
  std::unique_ptr<UsageLog> log_;
  std::atomic<int> directories_ = 0;
  std::atomic<int> rounds_ = 0;
  std::atomic<int> compiled_ = 0;
  Clock::duration slowest_record_{};
  std::vector<std::jthread> attacks_;
};

double cpu_seconds_of(pid_t pid) {
  const auto stat = read_process_stat("/proc/" + std::to_string(pid) + "/stat");
  EXPECT_TRUE(stat);
  if (!stat) return 0;
  return static_cast<double>(stat->user_ticks + stat->system_ticks) /
         static_cast<double>(::sysconf(_SC_CLK_TCK));
}

TEST_F(HostileTogetherTest, RootIsServedAndNothingIsLost) {
  const auto began = Clock::now();
  ASSERT_TRUE(groups_.are_there() || !is_long_attack()) << "needs cgroups with CPU weights";
  EXPECT_EQ(groups_.has_profd(daemon_->process().pid()), groups_.are_there());
  Process::Options service;
  service.before_exec = groups_.of_services();
  Process roots_load({workload("shares"), "100000"}, service);
  record_as_root();
  run_roots_job();
  const std::uint64_t idle_kib = resting_memory_kib();
  const std::uint64_t idle_descriptors = usage().descriptors;
  const RootsPoll root(socket("admin.sock"), daemon_->process().pid());
  RootsRecordings recordings(socket("admin.sock"), roots_load.pid(),
                             directory_.path() / "recordings");
  start_attacks();
  const UsageInAttack seen = watch_attacks(Clock::now() + attack_time(20s));
  expect_recordings(recordings.end(), slowest_record_);
  // In the short form only a guard against hanging.
  EXPECT_LE(root.slowest(), is_long_attack() ? 1s : 10s);
  EXPECT_EQ(root.failures(), 0U);
  EXPECT_GT(root.answers(), 10U);
  for (std::jthread& attack : attacks_) attack.request_stop();
  attacks_.clear();
  std::uint64_t afterwards_kib = usage().resident_kib;
  const auto is_given_back = [&] {
    afterwards_kib = resting_memory_kib();
    return afterwards_kib <= idle_kib + kMemoryAfterwardsKib;
  };
  if (is_long_attack()) {
    EXPECT_TRUE(eventually(is_given_back, kGivenBackIn));
    EXPECT_LE(seen.most_kib, idle_kib + kMemoryAboveIdleKib);
  }
  expect_level_memory(seen, idle_kib);
  std::printf(
      "%d attacks and %d compilations; root's slowest answer %lld ms (%lld ms to connect), in "
      "which the io thread ran %lld ms and waited %lld ms for a CPU (the host took %lld ms at "
      "most); memory %llu KiB idle, %llu at most, %llu afterwards; descriptors %llu idle, %llu at "
      "most\n",
      rounds_.load(), compiled_.load(), static_cast<long long>(root.slowest().count()),
      static_cast<long long>(root.connecting().count()), static_cast<long long>(root.ran().count()),
      static_cast<long long>(root.waited().count()), static_cast<long long>(root.stolen().count()),
      static_cast<unsigned long long>(idle_kib), static_cast<unsigned long long>(seen.most_kib),
      static_cast<unsigned long long>(afterwards_kib),
      static_cast<unsigned long long>(idle_descriptors),
      static_cast<unsigned long long>(seen.most_descriptors));
  EXPECT_GT(rounds_, 10);
  EXPECT_GT(compiled_, 1);
  EXPECT_TRUE(eventually(
      [&] { return usage().descriptors <= idle_descriptors + kDescriptorsAfterwards; }, 120s))
      << usage().descriptors;
  const StatusInfo status = daemon_->status();
  EXPECT_EQ(status.ledger.difference(), 0);
  // Only the users' own sessions may lose samples.
  EXPECT_THAT(status.ledger.lost, ::testing::Each(::testing::Key("ring_share")));
  EXPECT_THAT(status.continuous.failed, ::testing::IsEmpty());
  expect_refusals(status, kSomebody);

  roots_load.signal(SIGSTOP);
  const double used = cpu_seconds_of(roots_load.pid());
  EXPECT_EQ(daemon_->stop(SIGTERM).status, 0);
  const double lasted = std::chrono::duration<double>(Clock::now() - began).count();
  const Kept kept = kept_of(roots_load.pid());
  std::printf("the windows cover %.1f of %.1f s, and have %llu samples of %.1f CPU seconds\n",
              kept.seconds, lasted, static_cast<unsigned long long>(kept.samples), used);
  EXPECT_GE(kept.seconds, 0.9 * lasted);
  EXPECT_THAT(kept.lost, ::testing::IsEmpty()) << text_of(kept.lost);
  EXPECT_NEAR(static_cast<double>(kept.samples), used * kFrequency, 0.1 * used * kFrequency);
}

}  // namespace
}  // namespace profd::e2e
