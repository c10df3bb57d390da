// The cost of following a live jitdump: a stand-in for a runtime writes a number of LOADs a second,
// and this process does all that the daemon would do. Prints JSON: the CPU time of this process and
// of its parser, as shares of one core.
//
//     jit_follow_bench [LOADS_A_SECOND [SECONDS]]

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "collectors/jit/processes.h"
#include "collectors/parser/parser.h"
#include "tests/collectors/jit/runtime.h"

namespace profd::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kCodeBytes = 760;  // node's mean
constexpr std::chrono::milliseconds kDrainInterval{100};

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

double own_cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

double cpu_seconds_of(pid_t process) {
  clockid_t clock = 0;
  timespec time{};
  if (::clock_getcpuclockid(process, &clock) != 0 || ::clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Includes children that have ended and were waited for.
double cpu_seconds_of_parser(const std::vector<pid_t>& others) {
  double seconds = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream children(task.path() / "children");
    for (pid_t child = 0; children >> child;) {
      if (std::ranges::find(others, child) == others.end()) seconds += cpu_seconds_of(child);
    }
  }
  return seconds;
}

// Writes records in small parts all the time, as a runtime does.
[[noreturn]] void write_loads(const std::string& path, pid_t pid, unsigned loads_a_second) {
  constexpr std::uint64_t kAtOnce = 20;
  std::ofstream file(path, std::ios::binary | std::ios::app);
  const auto began = Clock::now();
  for (std::uint64_t i = 1;; ++i) {
    file << load_of(pid, {.name = "LazyCompile:*function" + std::to_string(i) + " file.js:1:1",
                          .address = 0x10000000 + i % 100'000 * 1024,
                          .bytes = kCodeBytes,
                          .time_ns = monotonic_ns()});
    if (i % kAtOnce != 0) continue;
    file.flush();
    std::this_thread::sleep_until(began +
                                  std::chrono::microseconds(1'000'000 * i / loads_a_second));
  }
}

struct Cost {
  double own = 0;
  double parser = 0;
};

Cost cost_so_far(const std::vector<pid_t>& others) {
  return {.own = own_cpu_seconds(), .parser = cpu_seconds_of_parser(others)};
}

void drain_for(JitProcesses& processes, std::chrono::seconds time) {
  for (const auto end = Clock::now() + time; Clock::now() < end;) {
    std::this_thread::sleep_for(kDrainInterval);
    processes.poll();
  }
}

int run(unsigned loads_a_second, unsigned seconds) {
  constexpr std::chrono::seconds kSettle{2};
  const PrivateDirectory directory;
  const Runtime runtime([&] { return ::chdir(directory.path().c_str()) == 0; });
  const std::string path = directory / ("jit-" + std::to_string(runtime.pid()) + ".dump");
  write_file(path, dump_header(runtime.pid()));
  const pid_t writer = ::fork();
  if (writer == 0) write_loads(path, runtime.pid(), loads_a_second);
  const std::vector<pid_t> others = {runtime.pid(), writer};
  auto processes = JitProcesses::start({});
  if (!processes) return 1;
  (*processes)->on_mapping(jit_code_of(runtime.key()));
  drain_for(**processes, kSettle);
  const JitStats before = (*processes)->stats();
  const Cost at_start = cost_so_far(others);
  const auto began = Clock::now();
  drain_for(**processes, std::chrono::seconds(seconds));
  const double took = std::chrono::duration<double>(Clock::now() - began).count();
  const Cost at_end = cost_so_far(others);
  const JitStats after = (*processes)->stats();
  ::kill(writer, SIGKILL);
  ::waitpid(writer, nullptr, 0);
  std::printf(
      "{\"loads_a_second\":%.0f,\"bytes_a_second\":%.0f,\"own_percent\":%.2f,"
      "\"parser_percent\":%.2f,\"functions\":%lu,\"memory_bytes\":%lu}\n",
      static_cast<double>(after.events - before.events) / took,
      static_cast<double>(after.bytes_read - before.bytes_read) / took,
      100 * (at_end.own - at_start.own) / took, 100 * (at_end.parser - at_start.parser) / took,
      after.functions, after.bytes);
  return 0;
}

}  // namespace
}  // namespace profd::test

int main(int argc, char** argv) {
  profd::sandbox::run_as_child(argc, argv, {profd::kParserChild, profd::kUserParserChild});
  constexpr unsigned kLoadsASecond = 10'000;
  constexpr unsigned kSeconds = 10;
  const auto number = [argc, argv](int place, unsigned otherwise) {
    return argc > place ? static_cast<unsigned>(std::strtoul(argv[place], nullptr, 10)) : otherwise;
  };
  return profd::test::run(number(1, kLoadsASecond), number(2, kSeconds));
}
