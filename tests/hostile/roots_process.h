// A process that does something as root again and again, beside the test: the threads of a test
// fork all the time, and while the kernel copies the memory of the test for that, which takes
// seconds on a busy host, all its threads may wait. And the time that the daemon takes to answer
// such a process.

#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <functional>
#include <string>
#include <system_error>

namespace profd::e2e {

class RootsProcess {
 public:
  // `round` may not throw. While no other thread runs in the test.
  explicit RootsProcess(const std::function<void()>& round) {
    const pid_t test = ::getpid();
    process_ = ::fork();
    if (process_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (process_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGTERM);
    ::sigprocmask(SIG_BLOCK, &signals, nullptr);
    while (::getppid() == test && !is_asked_to_end()) round();
    ::_exit(0);
  }
  RootsProcess(const RootsProcess&) = delete;
  RootsProcess& operator=(const RootsProcess&) = delete;
  ~RootsProcess() { end(); }

  // After the round that is under way. Later calls do nothing.
  void end() {
    if (process_ < 0) return;
    ::kill(process_, SIGTERM);
    ::waitpid(process_, nullptr, 0);
    process_ = -1;
  }

 private:
  static bool is_asked_to_end() {
    sigset_t pending;
    ::sigpending(&pending);
    return ::sigismember(&pending, SIGTERM) == 1;
  }

  pid_t process_ = -1;
};

// What a process has run and has waited for a CPU. 0 where the kernel does not say.
struct CpuTimes {
  std::int64_t ran_ns = 0;
  std::int64_t waited_ns = 0;
};

inline CpuTimes cpu_times_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/schedstat");
  CpuTimes times;
  file >> times.ran_ns >> times.waited_ns;
  return times;
}

// The time that an answer takes the daemon. What the calling process itself waits for a CPU is no
// time of the daemon's, nor is what the host of a virtual machine takes from all its CPUs: both are
// not counted. For a process of one thread.
class AnswerTime {
 public:
  struct Passed {
    std::int64_t ms = 0;
    std::int64_t stolen_ms = 0;  // not in `ms`
  };

  AnswerTime()
      : stolen_before_ms_(stolen_ms()),
        waited_before_ns_(cpu_times_of(::getpid()).waited_ns),
        began_(std::chrono::steady_clock::now()) {}

  [[nodiscard]] std::chrono::steady_clock::time_point began() const { return began_; }

  [[nodiscard]] Passed passed() const {
    constexpr std::int64_t kNsOfMs = 1'000'000;
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - began_;
    const std::int64_t waited_ns = cpu_times_of(::getpid()).waited_ns - waited_before_ns_;
    const std::int64_t stolen = stolen_ms() - stolen_before_ms_;
    return {.ms = (took.count() - waited_ns) / kNsOfMs - stolen, .stolen_ms = stolen};
  }

 private:
  // What was taken from each CPU, on average.
  static std::int64_t stolen_ms() {
    std::ifstream file("/proc/stat");
    std::string name;
    file >> name;
    std::int64_t ticks = 0;
    constexpr int kStealField = 8;  // proc(5)
    for (int i = 0; i < kStealField; ++i) file >> ticks;
    constexpr std::int64_t kMsOfSecond = 1000;
    return ticks * kMsOfSecond / ::sysconf(_SC_CLK_TCK) / ::sysconf(_SC_NPROCESSORS_ONLN);
  }

  // In the order in which the constructor reads them: the time begins last.
  std::int64_t stolen_before_ms_;
  std::int64_t waited_before_ns_;
  std::chrono::steady_clock::time_point began_;
};

}  // namespace profd::e2e
