// Root's question to the daemon, again and again, from a process of its own: the threads of a test
// fork all the time, and while the kernel copies the memory of the test for that, which takes
// seconds on a busy host, all its threads may wait. What this process itself waits for a CPU is no
// time of the daemon's, nor is what the host of a virtual machine takes from all its CPUs: both are
// not counted.

#pragma once

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

#include "tests/daemon/control/raw_client.h"

namespace profd::e2e {

class RootsPoll {
 public:
  RootsPoll(const std::filesystem::path& socket, pid_t daemon)
      : daemon_(daemon),
        answers_(static_cast<Answers*>(::mmap(nullptr, sizeof(Answers), PROT_READ | PROT_WRITE,
                                              MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    if (answers_ == MAP_FAILED) throw std::runtime_error("no shared memory");
    const pid_t test = ::getpid();
    process_ = ::fork();
    if (process_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (process_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (::getppid() == test) ask(socket);
    ::_exit(0);
  }
  RootsPoll(const RootsPoll&) = delete;
  RootsPoll& operator=(const RootsPoll&) = delete;
  ~RootsPoll() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    ::munmap(answers_, sizeof(Answers));
  }

  [[nodiscard]] std::uint64_t answers() const { return answers_->good; }
  [[nodiscard]] std::uint64_t failures() const { return answers_->failed; }
  [[nodiscard]] std::chrono::milliseconds slowest() const {
    return std::chrono::milliseconds(answers_->slowest_ms);
  }
  // Of the slowest answer: the time to connect, and what the io thread of the daemon ran, and
  // waited for a CPU.
  [[nodiscard]] std::chrono::milliseconds connecting() const {
    return std::chrono::milliseconds(answers_->connecting_ms);
  }
  [[nodiscard]] std::chrono::milliseconds ran() const {
    return std::chrono::milliseconds(answers_->ran_ms);
  }
  [[nodiscard]] std::chrono::milliseconds waited() const {
    return std::chrono::milliseconds(answers_->waited_ms);
  }
  // The longest time that was taken from all CPUs during an answer.
  [[nodiscard]] std::chrono::milliseconds stolen() const {
    return std::chrono::milliseconds(answers_->stolen_ms);
  }

 private:
  struct Answers {
    std::atomic<std::uint64_t> good = 0;
    std::atomic<std::uint64_t> failed = 0;
    std::atomic<std::int64_t> slowest_ms = 0;
    std::atomic<std::int64_t> connecting_ms = 0;
    std::atomic<std::int64_t> ran_ms = 0;
    std::atomic<std::int64_t> waited_ms = 0;
    std::atomic<std::int64_t> stolen_ms = 0;
  };

  // What a process has run and has waited for a CPU. 0 where the kernel does not say.
  struct Times {
    std::int64_t ran_ns = 0;
    std::int64_t waited_ns = 0;
  };
  static Times times_of(pid_t process) {
    std::ifstream file("/proc/" + std::to_string(process) + "/schedstat");
    Times times;
    file >> times.ran_ns >> times.waited_ns;
    return times;
  }

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

  void ask(const std::filesystem::path& socket) {
    const std::int64_t stolen_before_ms = stolen_ms();
    const Times before = times_of(::getpid());
    const Times daemon_before = times_of(daemon_);
    const auto began = std::chrono::steady_clock::now();
    auto connected = began;
    bool is_good = false;
    try {
      RawClient client(socket);
      connected = std::chrono::steady_clock::now();
      is_good = client.ask("GET", "/v1/status").status == 200;
    } catch (const std::exception&) {  // counts as failed
    }
    ++(is_good ? answers_->good : answers_->failed);
    const auto ended = std::chrono::steady_clock::now();
    const Times daemon_after = times_of(daemon_);
    constexpr std::int64_t kNsOfMs = 1'000'000;
    const std::int64_t waited_ns = times_of(::getpid()).waited_ns - before.waited_ns;
    const std::int64_t stolen = stolen_ms() - stolen_before_ms;
    answers_->stolen_ms = std::max<std::int64_t>(answers_->stolen_ms, stolen);
    const std::int64_t took_ms = ((ended - began).count() - waited_ns) / kNsOfMs - stolen;
    if (took_ms > answers_->slowest_ms) {
      answers_->slowest_ms = took_ms;
      answers_->connecting_ms = (connected - began).count() / kNsOfMs;
      answers_->ran_ms = (daemon_after.ran_ns - daemon_before.ran_ns) / kNsOfMs;
      answers_->waited_ms = (daemon_after.waited_ns - daemon_before.waited_ns) / kNsOfMs;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
  }

  pid_t daemon_;
  Answers* answers_;
  pid_t process_ = -1;
};

}  // namespace profd::e2e
