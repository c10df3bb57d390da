// Unwinding with the real BPF programs, parser and tables, on programs of Debian. Needs root.

#include "collectors/unwinding/unwinding.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/fanotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "collectors/sampling/sampler.h"
#include "formats/base/unique_fd.h"
#include "tests/collectors/begun_start.h"
#include "tests/collectors/settled_stop.h"

namespace profd::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

// Counts how the user stacks of some processes end.
class EndCounter final : public SampleSink {
 public:
  void on_sample(const SampleView& sample) noexcept override {
    EXPECT_NE(sample.user_end, PROFD_END_DEFERRED);
    if (sample.context <= PROFD_CONTEXT_TRAP) ++ends[sample.user_end];
  }
  void on_mapping(const MappingView& mapping,
                  std::shared_ptr<const MappedFile> file) noexcept override {
    if (!file) return;
    is_open[mapping.file.inode] = file->fd.valid();
    if (file->fd.valid()) with_file.insert(mapping.process.tgid);
  }
  void on_process(const ProcessView&) noexcept override {}
  void on_unmap(const UnmapView&) noexcept override {}

  [[nodiscard]] std::size_t all() const {
    std::size_t count = 0;
    for (const auto& [end, times] : ends) count += times;
    return count;
  }
  [[nodiscard]] std::string text() const {
    std::string text;
    for (const auto& [end, times] : ends) {
      text += std::to_string(end) + ": " + std::to_string(times) + "\n";
    }
    return text;
  }

  std::map<profd_user_end, std::size_t> ends;
  std::map<std::uint64_t, bool> is_open;  // by inode, as the latest record has it
  std::set<std::uint32_t> with_file;      // processes with a mapping whose file is open
};

// Until it is destroyed, an open of the file waits.
class SlowOpens {
 public:
  explicit SlowOpens(const fs::path& path)
      : events_(::fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC, O_RDONLY | O_CLOEXEC)) {
    is_active_ = events_.valid() && ::fanotify_mark(events_.get(), FAN_MARK_ADD, FAN_OPEN_PERM,
                                                    AT_FDCWD, path.c_str()) == 0;
  }

  [[nodiscard]] bool is_active() const { return is_active_; }

 private:
  UniqueFd events_;
  bool is_active_ = false;
};

class UnwindingTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "profd-unwinding-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    open();
  }
  void TearDown() override {
    end_program();
    sampler_.reset();
    fs::remove_all(directory_);
  }

  void open(std::size_t max_bytes = std::size_t{40} << 20) {
    sampler_.reset();
    auto sampler = Sampler::open(
        {.unwinding = {.cache_directory = directory_ / "unwind", .max_bytes = max_bytes}}, sink_);
    ASSERT_TRUE(sampler) << sampler.error().message;
    sampler_ = std::move(*sampler);
  }

  // A copy of a program, so that its file key is new.
  fs::path fresh_copy(const std::string& program) {
    const fs::path copy = directory_ / ("copy" + std::to_string(++copies_));
    fs::copy_file(program, copy);
    return copy;
  }

  void run(std::vector<std::string> arguments, std::string preload = {}) {
    std::vector<char*> raw;
    for (std::string& argument : arguments) raw.push_back(argument.data());
    raw.push_back(nullptr);
    preload.insert(0, "LD_PRELOAD=");
    std::vector<char*> environment{preload.data()};
    for (char** variable = environ; *variable != nullptr; ++variable) {
      environment.push_back(*variable);
    }
    environment.push_back(nullptr);
    int error = 0;
    do {
      error = ::posix_spawn(&program_, raw[0], nullptr, nullptr, raw.data(), environment.data());
      // A parser that starts now holds the copy open for writing until its exec.
    } while (error == ETXTBSY);
    ASSERT_EQ(error, 0);
  }
  void end_program() {
    if (program_ <= 0) return;
    ::kill(program_, SIGKILL);
    ::waitpid(program_, nullptr, 0);
    program_ = -1;
  }

  SessionSlot start() {
    Target target;
    target.pids = {static_cast<std::uint32_t>(program_)};
    const auto slot = start_and_begin(*sampler_, *make_event_spec("cpu-clock", 999, 0), target);
    if (!slot) throw std::runtime_error(slot.error().message);
    return *slot;
  }
  void collect_until(const std::function<bool()>& condition) {
    const auto guard = std::chrono::steady_clock::now() + 60s;
    while (!condition() && std::chrono::steady_clock::now() < guard) {
      sampler_->drain();
      std::this_thread::sleep_for(5ms);
    }
    ASSERT_TRUE(condition()) << sink_.text() << refusals();
  }
  // "REASON: FILES" for each reason why files have no table.
  std::string refusals() const {
    std::string text;
    const UnwindStats stats = sampler_->unwind_stats();
    for (std::size_t i = 0; i < kTableRefusalCount; ++i) {
      if (stats.refused[i] == 0) continue;
      text += std::string(name_of(static_cast<TableRefusal>(i))) + ": " +
              std::to_string(stats.refused[i]) + "\n";
    }
    return text;
  }
  void stop_balanced(SessionSlot slot) {
    stop_when_settled(*sampler_, slot);
    const SamplerLedger ledger = sampler_->ledger();
    EXPECT_EQ(ledger.waiting, 0U);
    EXPECT_EQ(ledger.sent, ledger.received);
    EXPECT_EQ(ledger.malformed, 0U);
  }
  void expect_complete(std::size_t of_thousand) {
    EXPECT_GE(sink_.ends[PROFD_END_ENTRY] * 1000, sink_.all() * of_thousand)
        << sink_.text() << "refused: " << testing::PrintToString(sampler_->unwind_stats().refused);
  }

  // Runs perl with a recursion of 25 calls that spins.
  void run_perl(const fs::path& perl, const std::string& preload = {}) {
    run({perl, "-e",
         "sub f { my $n = shift; return f($n - 1) if $n; open(my $file, '>', '" + ready().string() +
             "'); close($file); 1 while 1 } f(25)"},
        preload);
  }
  // So that the kernel side sends its mappings once.
  void stay_on_one_cpu() const {
    cpu_set_t allowed;
    ASSERT_EQ(::sched_getaffinity(program_, sizeof allowed, &allowed), 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &allowed)) ++cpu;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ASSERT_EQ(::sched_setaffinity(program_, sizeof one, &one), 0);
  }
  // The file that a program creates when it begins to spin.
  [[nodiscard]] fs::path ready() const { return directory_ / "ready"; }
  void wait_until_ready() const {
    const auto guard = std::chrono::steady_clock::now() + 60s;
    while (!fs::exists(ready()) && std::chrono::steady_clock::now() < guard) {
      std::this_thread::sleep_for(5ms);
    }
    ASSERT_TRUE(fs::exists(ready()));
  }

  fs::path directory_;
  EndCounter sink_;
  std::unique_ptr<Sampler> sampler_;
  pid_t program_ = -1;
  int copies_ = 0;
};

TEST_F(UnwindingTest, TheFirstStacksOfANewProgramAreComplete) {
  run_perl(fresh_copy("/usr/bin/perl"));
  const SessionSlot slot = start();
  collect_until([&] { return sink_.all() >= 1000; });
  stop_balanced(slot);
  expect_complete(990);
  EXPECT_GT(sampler_->unwind_stats().deferred_done, 0U);
  EXPECT_EQ(sampler_->unwind_stats().deferred_abandoned, 0U);
}

TEST_F(UnwindingTest, TheStacksOfAProcessOfTwentyMillisecondsAreCompleteAfterItsExit) {
  // Each child runs a new file, and exits before its table is made.
  std::string script = "for i in $(seq 20); do cp /usr/bin/perl " + (directory_ / "p").string() +
                       "$i; " + (directory_ / "p").string() +
                       "$i -e 'my $e = times + 0.02; 1 while times < $e'; done; sleep 60";
  run({"/bin/sh", "-c", "sleep 0.3; " + script});
  const SessionSlot slot = start();
  collect_until([&] { return sampler_->unwind_stats().deferred_done >= 20 && sink_.all() >= 300; });
  stop_balanced(slot);
  expect_complete(980);
}

TEST_F(UnwindingTest, AKilledParserIsRestartedAndStacksAreComplete) {
  const auto kill_parsers = [] {
    for (const auto& entry : fs::directory_iterator("/proc/self/task")) {
      std::ifstream children(entry.path() / "children");
      for (pid_t child = 0; children >> child;) {
        std::ifstream line("/proc/" + std::to_string(child) + "/cmdline");
        std::string text{std::istreambuf_iterator<char>(line), {}};
        if (text.find("--parser") == std::string::npos) continue;
        ::kill(child, SIGKILL);
        // Waits until its socket is closed, so that no file is sent to a parser that is dying.
        siginfo_t ended{};
        ::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT);
      }
    }
  };
  kill_parsers();
  run_perl(fresh_copy("/usr/bin/perl"));
  const SessionSlot slot = start();
  collect_until([&] { return sink_.all() >= 300; });
  stop_balanced(slot);
  EXPECT_GE(sampler_->unwind_stats().parser_restarts, 1U);
  expect_complete(900);
}

// clang's libraries have tables of more than 4 MiB together: without the limit they are all
// installed.
TEST_F(UnwindingTest, TablesBeyondTheMemoryLimitAreRefusedAndStacksAreStillDelivered) {
  constexpr std::size_t kOneArena = std::size_t{4} << 20;
  const auto run_with_limit = [&](std::size_t max_bytes) {
    open(max_bytes);
    sink_.ends.clear();
    const SessionSlot slot = start();
    collect_until([&] { return sampler_->unwind_stats().loading == 0 && sink_.all() >= 300; });
    stop_balanced(slot);
    return sampler_->unwind_stats();
  };
  const auto over_memory = static_cast<std::size_t>(TableRefusal::kOverMemory);
  run_perl("/usr/bin/perl", "libLLVM-14.so.1 libclang-cpp.so.14");
  wait_until_ready();
  const UnwindStats unlimited = run_with_limit(kOneArena * 10);
  ASSERT_GT(unlimited.bytes, kOneArena);
  EXPECT_EQ(unlimited.refused[over_memory], 0U);
  const UnwindStats limited = run_with_limit(kOneArena);
  EXPECT_EQ(limited.cap_bytes, kOneArena);
  EXPECT_EQ(limited.arena_bytes, kOneArena);
  EXPECT_LE(limited.bytes, kOneArena);
  EXPECT_GT(limited.refused[over_memory], 0U);
}

TEST_F(UnwindingTest, AFileThatOpensTooSlowlyIsOpenedLaterWithoutAnotherRecord) {
  const fs::path copy = fresh_copy("/usr/bin/perl");
  struct stat status {};
  ASSERT_EQ(::stat(copy.c_str(), &status), 0);
  run_perl(copy);
  wait_until_ready();
  stay_on_one_cpu();
  std::optional<SlowOpens> slow(copy);
  ASSERT_TRUE(slow->is_active()) << "needs fanotify";
  fs::remove(copy);  // otherwise it is opened by its name
  const SessionSlot slot = start();
  collect_until([&] { return sink_.is_open.contains(status.st_ino); });
  EXPECT_FALSE(sink_.is_open[status.st_ino]);
  slow.reset();
  collect_until(
      [&] { return sink_.is_open[status.st_ino] && sampler_->unwind_stats().loading == 0; });
  sink_.ends.clear();
  collect_until([&] { return sink_.all() >= 300; });
  stop_balanced(slot);
  expect_complete(900);
}

// The mapping of a program's code, as the kernel side sends it.
MappingView code_of(pid_t program) {
  MappingView view{};
  view.process.tgid = static_cast<std::uint32_t>(program);
  view.kind = PROFD_MAPPING_FILE;
  std::ifstream maps("/proc/" + std::to_string(program) + "/maps");
  std::string line;
  while (std::getline(maps, line) && line.find(" r-xp ") == std::string::npos) continue;
  unsigned long start = 0;
  unsigned long end = 0;
  unsigned long offset = 0;
  if (std::sscanf(line.c_str(), "%lx-%lx %*s %lx", &start, &end, &offset) != 3) {
    throw std::runtime_error("no code in " + line);
  }
  view.start = start;
  view.end = end;
  view.file_offset = offset;
  struct stat status {};
  if (::stat(("/proc/" + std::to_string(program) + "/exe").c_str(), &status) != 0) {
    throw std::runtime_error("no program");
  }
  view.file = file_key_of(status);
  return view;
}

// Unwinding that gets its records from the test.
class RecordsTest : public UnwindingTest {
 protected:
  // The code of a program that runs, whose file is not known yet.
  MappingView begin_with_a_program() {
    sampler_.reset();
    run_perl(fresh_copy("/usr/bin/perl"));
    wait_until_ready();
    programs_.emplace(Programs::load(Programs::built_in(), std::size_t{1} << 20).value());
    unwinding_ =
        Unwinding::open(*programs_, files_, {.cache_directory = directory_ / "unwind"}, sink_)
            .value();
    MappingView mapping = code_of(program_);
    mapping.file.generation = 7;
    return mapping;
  }

  template <class Condition>
  void poll_until(const Condition& is_met) {
    const auto guard = std::chrono::steady_clock::now() + 60s;
    while (!is_met() && std::chrono::steady_clock::now() < guard) {
      unwinding_->poll();
      std::this_thread::sleep_for(5ms);
    }
  }

  std::optional<Programs> programs_;
  MappedFiles files_;
  std::unique_ptr<Unwinding> unwinding_;
};

TEST_F(RecordsTest, AFileIsOpenedByAProcessThatIsThereWhereTheFirstHasEnded) {
  MappingView mapping = begin_with_a_program();
  MappingView of_ended = mapping;
  of_ended.process.tgid = 4'000'000;  // above any pid_max
  unwinding_->on_record(of_ended);
  unwinding_->on_record(mapping);
  poll_until([&] { return sink_.is_open[mapping.file.inode]; });
  EXPECT_TRUE(sink_.is_open[mapping.file.inode]);
}

// Short processes map a file that is being opened for another one. Only the first mappings wait for
// that; the others are tried again a second later, when their processes have ended.
TEST_F(RecordsTest, ProcessesThatHaveEndedGetTheFileThatAnotherOneHasOpened) {
  constexpr std::uint32_t kProcesses = 80;
  MappingView mapping = begin_with_a_program();
  unwinding_->on_record(mapping);
  for (std::uint32_t i = 0; i < kProcesses; ++i) {
    MappingView of_ended = mapping;
    of_ended.process.tgid = 4'200'000 + i;  // above any pid_max
    unwinding_->on_record(of_ended);
  }
  poll_until([&] { return sink_.with_file.size() == kProcesses + 1; });
  EXPECT_EQ(sink_.with_file.size(), kProcesses + 1);
}

TEST_F(UnwindingTest, TablesOfRunningProgramsAreMadeAtTheStart) {
  run_perl(fresh_copy("/usr/bin/perl"));
  wait_until_ready();
  open();
  collect_until([&] {
    const UnwindStats stats = sampler_->unwind_stats();
    return stats.loading == 0 && stats.tables > 0;
  });
  const SessionSlot slot = start();
  collect_until([&] { return sink_.all() >= 300; });
  stop_balanced(slot);
  expect_complete(990);
  EXPECT_EQ(sampler_->unwind_stats().deferred_done, 0U);
}

TEST_F(UnwindingTest, AMappedFileThatIsNotElfIsCountedAsMalformed) {
  // A text file that begins with code, as a JIT may map it: jmp to itself.
  const fs::path code = directory_ / "code";
  std::ofstream(code) << std::string("\xeb\xfe", 2) << std::string(4094, 'x');
  run({"/usr/bin/python3", "-c",
       "import mmap,ctypes,os\n"
       "f=os.open('" +
           code.string() +
           "',os.O_RDONLY)\n"
           "m=ctypes.CDLL(None).mmap\nm.restype=ctypes.c_void_p\n"
           "m.argtypes=[ctypes.c_void_p,ctypes.c_size_t]+[ctypes.c_int]*3+[ctypes.c_long]\n"
           "a=m(None,4096,5,2,f,0)\n"
           "open('" +
           ready().string() +
           "','w').close()\n"
           "ctypes.CFUNCTYPE(None)(a)()\n"});
  wait_until_ready();
  const SessionSlot slot = start();
  const auto malformed = [&] {
    return sampler_->unwind_stats().refused[static_cast<std::size_t>(TableRefusal::kMalformed)];
  };
  // The files of all processes are counted, those of other tests too.
  collect_until([&] { return malformed() >= 1 && sink_.all() >= 300; });
  stop_balanced(slot);
  EXPECT_EQ(sink_.ends[PROFD_END_TABLE_LATE], 0U) << sink_.text();
}

}  // namespace
}  // namespace profd::test
