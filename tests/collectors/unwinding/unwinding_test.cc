// A sampler with its real programs, parser and tables, on programs as Debian builds them. Needs
// root.

#include "collectors/unwinding/unwinding.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "collectors/sampling/sampler.h"

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
  void on_mapping(const MappingView&, std::shared_ptr<const MappedFile>) noexcept override {}
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

  // A program of Debian's under a name, and with a key, that nobody has met.
  fs::path fresh_copy(const std::string& program) {
    const fs::path copy = directory_ / ("copy" + std::to_string(++copies_));
    fs::copy_file(program, copy);
    return copy;
  }

  void run(std::vector<std::string> arguments) {
    std::vector<char*> raw;
    for (std::string& argument : arguments) raw.push_back(argument.data());
    raw.push_back(nullptr);
    int error = 0;
    do {
      error = ::posix_spawn(&program_, raw[0], nullptr, nullptr, raw.data(), environ);
      // A parser that starts now holds the copy open for writing until it execs.
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
    const auto slot = sampler_->start(*make_event_spec("cpu-clock", 999, 0), target);
    if (!slot) throw std::runtime_error(slot.error().message);
    return *slot;
  }
  void collect_until(const std::function<bool()>& condition) {
    const auto guard = std::chrono::steady_clock::now() + 60s;
    while (!condition() && std::chrono::steady_clock::now() < guard) {
      sampler_->drain();
      std::this_thread::sleep_for(5ms);
    }
    ASSERT_TRUE(condition()) << sink_.text();
  }
  void stop_balanced(SessionSlot slot) {
    sampler_->stop(slot);
    const SamplerLedger ledger = sampler_->ledger();
    EXPECT_EQ(ledger.waiting, 0U);
    EXPECT_EQ(ledger.sent, ledger.received);
    EXPECT_EQ(ledger.malformed, 0U);
  }
  void expect_complete(std::size_t of_thousand) {
    EXPECT_GE(sink_.ends[PROFD_END_ENTRY] * 1000, sink_.all() * of_thousand)
        << sink_.text() << "refused: " << testing::PrintToString(sampler_->unwind_stats().refused);
  }

  static constexpr const char* kSpinInPerl =
      "sub f { my $n = shift; return $n ? f($n - 1) : do { 1 while 1 } } f(25)";

  fs::path directory_;
  EndCounter sink_;
  std::unique_ptr<Sampler> sampler_;
  pid_t program_ = -1;
  int copies_ = 0;
};

TEST_F(UnwindingTest, TheFirstStacksOfANewProgramAreWhole) {
  run({fresh_copy("/usr/bin/perl"), "-e", kSpinInPerl});
  const SessionSlot slot = start();
  collect_until([&] { return sink_.all() >= 1000; });
  stop_balanced(slot);
  expect_complete(990);
  EXPECT_GT(sampler_->unwind_stats().deferred_done, 0U);
  EXPECT_EQ(sampler_->unwind_stats().deferred_abandoned, 0U);
}

TEST_F(UnwindingTest, AProcessOfTwentyMillisecondsIsWholeAlsoWhenItIsGone) {
  // Each of its children runs a file that nobody has met, and is over before its table is made.
  std::string script = "for i in $(seq 20); do cp /usr/bin/perl " + (directory_ / "p").string() +
                       "$i; " + (directory_ / "p").string() +
                       "$i -e 'my $e = times + 0.02; 1 while times < $e'; done; sleep 60";
  run({"/bin/sh", "-c", "sleep 0.3; " + script});
  const SessionSlot slot = start();
  collect_until([&] { return sampler_->unwind_stats().deferred_done >= 20 && sink_.all() >= 300; });
  stop_balanced(slot);
  expect_complete(980);
}

TEST_F(UnwindingTest, AKilledParserCostsOneFileAtMost) {
  const auto kill_parsers = [] {
    for (const auto& entry : fs::directory_iterator("/proc/self/task")) {
      std::ifstream children(entry.path() / "children");
      for (pid_t child = 0; children >> child;) {
        std::ifstream line("/proc/" + std::to_string(child) + "/cmdline");
        std::string text{std::istreambuf_iterator<char>(line), {}};
        if (text.find("--parser") == std::string::npos) continue;
        ::kill(child, SIGKILL);
        // Until its socket is closed: the next file is not to be given to one that dies.
        siginfo_t ended{};
        ::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT);
      }
    }
  };
  kill_parsers();
  run({fresh_copy("/usr/bin/perl"), "-e", kSpinInPerl});
  const SessionSlot slot = start();
  collect_until([&] { return sink_.all() >= 300; });
  stop_balanced(slot);
  EXPECT_GE(sampler_->unwind_stats().parser_restarts, 1U);
  expect_complete(900);
}

TEST_F(UnwindingTest, OneArenaIsNotExceededAndStacksGoOn) {
  open(std::size_t{4} << 20);  // one arena
  run({fresh_copy("/usr/bin/perl"), "-e", kSpinInPerl});
  const SessionSlot slot = start();
  collect_until([&] { return sink_.all() >= 300; });
  stop_balanced(slot);
  const UnwindStats stats = sampler_->unwind_stats();
  EXPECT_LE(stats.arena_bytes, stats.cap_bytes);
  EXPECT_EQ(stats.cap_bytes, std::size_t{4} << 20);
}

TEST_F(UnwindingTest, WhatRunsAtTheStartIsLoadedInTheBackground) {
  run({fresh_copy("/usr/bin/perl"), "-e", kSpinInPerl});
  std::this_thread::sleep_for(100ms);
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

TEST_F(UnwindingTest, AFileThatIsNoProgramIsCountedAndLeftByTheFramePointer) {
  // Code bytes in a file of text, as a JIT may map them: jmp to itself.
  const fs::path code = directory_ / "code";
  std::ofstream(code) << std::string("\xeb\xfe", 2) << std::string(4094, 'x');
  run({"/usr/bin/python3", "-c",
       "import mmap,ctypes,os\n"
       "f=os.open('" +
           code.string() +
           "',os.O_RDONLY)\n"
           "m=ctypes.CDLL(None).mmap\nm.restype=ctypes.c_void_p\n"
           "m.argtypes=[ctypes.c_void_p,ctypes.c_size_t]+[ctypes.c_int]*3+[ctypes.c_long]\n"
           "ctypes.CFUNCTYPE(None)(m(None,4096,5,2,f,0))()\n"});
  std::this_thread::sleep_for(1s);
  const SessionSlot slot = start();
  const auto malformed = [&] {
    return sampler_->unwind_stats().refused[static_cast<std::size_t>(TableRefusal::kMalformed)];
  };
  collect_until([&] { return malformed() == 1 && sink_.all() >= 300; });
  stop_balanced(slot);
  EXPECT_EQ(sink_.ends[PROFD_END_TABLE_LATE], 0U) << sink_.text();
}

}  // namespace
}  // namespace profd::test
