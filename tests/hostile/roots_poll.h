// Root's question to the daemon, again and again, from a process of its own (roots_process.h).

#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "tests/daemon/control/raw_client.h"
#include "tests/hostile/roots_process.h"

namespace profd::e2e {

class RootsPoll {
 public:
  RootsPoll(const std::filesystem::path& socket, pid_t daemon)
      : daemon_(daemon), answers_(shared_answers()), process_([this, &socket] { ask(socket); }) {}
  RootsPoll(const RootsPoll&) = delete;
  RootsPoll& operator=(const RootsPoll&) = delete;
  ~RootsPoll() { ::munmap(answers_, sizeof(Answers)); }

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

  static Answers* shared_answers() {
    void* const shared =
        ::mmap(nullptr, sizeof(Answers), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) throw std::runtime_error("no shared memory");
    return static_cast<Answers*>(shared);
  }

  void ask(const std::filesystem::path& socket) {
    constexpr std::int64_t kNsOfMs = 1'000'000;
    const CpuTimes daemon_before = cpu_times_of(daemon_);
    const AnswerTime time;
    auto connected = time.began();
    bool is_good = false;
    try {
      RawClient client(socket);
      connected = std::chrono::steady_clock::now();
      is_good = client.ask("GET", "/v1/status").status == 200;
    } catch (const std::exception&) {  // counts as failed
    }
    ++(is_good ? answers_->good : answers_->failed);
    const AnswerTime::Passed passed = time.passed();
    const CpuTimes daemon_after = cpu_times_of(daemon_);
    answers_->stolen_ms = std::max<std::int64_t>(answers_->stolen_ms, passed.stolen_ms);
    if (passed.ms > answers_->slowest_ms) {
      answers_->slowest_ms = passed.ms;
      answers_->connecting_ms = (connected - time.began()).count() / kNsOfMs;
      answers_->ran_ms = (daemon_after.ran_ns - daemon_before.ran_ns) / kNsOfMs;
      answers_->waited_ms = (daemon_after.waited_ns - daemon_before.waited_ns) / kNsOfMs;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
  }

  pid_t daemon_;
  Answers* answers_;
  RootsProcess process_;  // last, since it uses the others; in its copy they stay as they are
};

}  // namespace profd::e2e
