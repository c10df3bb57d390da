// Root's question to the daemon, again and again, from a process of its own: the threads of a test
// fork all the time, and while the kernel copies the memory of the test for that, which takes
// seconds on a busy host, all its threads may wait. What this process itself waits for a CPU is no
// time of the daemon's: it is not counted.

#pragma once

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "tests/daemon/control/raw_client.h"

namespace profd::e2e {

class RootsPoll {
 public:
  explicit RootsPoll(const std::filesystem::path& socket)
      : answers_(static_cast<Answers*>(::mmap(nullptr, sizeof(Answers), PROT_READ | PROT_WRITE,
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

 private:
  struct Answers {
    std::atomic<std::uint64_t> good = 0;
    std::atomic<std::uint64_t> failed = 0;
    std::atomic<std::int64_t> slowest_ms = 0;
  };

  // For a CPU, so far. 0 where the kernel does not say.
  static std::chrono::nanoseconds waited() {
    std::ifstream file("/proc/self/schedstat");
    std::int64_t ran = 0;
    std::int64_t waited = 0;
    file >> ran >> waited;
    return std::chrono::nanoseconds(waited);
  }

  void ask(const std::filesystem::path& socket) {
    const auto waited_before = waited();
    const auto began = std::chrono::steady_clock::now();
    bool is_good = false;
    try {
      is_good = RawClient(socket).ask("GET", "/v1/status").status == 200;
    } catch (const std::exception&) {  // counts as failed
    }
    ++(is_good ? answers_->good : answers_->failed);
    const auto ended = std::chrono::steady_clock::now();
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(
        ended - began - (waited() - waited_before));
    if (took.count() > answers_->slowest_ms) answers_->slowest_ms = took.count();
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
  }

  Answers* answers_;
  pid_t process_ = -1;
};

}  // namespace profd::e2e
