// Reports when the io thread stands: for tests, since the io thread must never wait.
//
// A thread of its own gives the event loop an empty task again and again. A task that is not run
// within the limit means that the handlers before it took too long. Time in which the io thread was
// ready but had no CPU does not count, so that a busy host is not reported; what counts is the time
// that it ran or was blocked in a call. Each stall is written to the log, and the io thread prints
// its stack to standard error, by a signal: at once while it runs, and at the end of a call that no
// signal interrupts.

#pragma once

#include <sys/types.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include <boost/asio/io_context.hpp>

namespace profd {

class StallMonitor {
 public:
  using Milliseconds = std::chrono::milliseconds;

  // The limit that the environment variable PROFD_STALL_MS has; none: there shall be no monitor.
  [[nodiscard]] static std::optional<Milliseconds> limit_of_environment();

  // For the calling thread, which will run `io`. `io` must outlive the monitor.
  StallMonitor(boost::asio::io_context& io, Milliseconds limit);
  StallMonitor(const StallMonitor&) = delete;
  StallMonitor& operator=(const StallMonitor&) = delete;
  ~StallMonitor();

  [[nodiscard]] std::uint64_t stalls() const { return stalls_; }
  [[nodiscard]] Milliseconds longest() const { return Milliseconds(longest_ms_); }

 private:
  // A task that the event loop has; it may outlive the monitor.
  class Task;

  void run(const std::stop_token& stop);
  void watch(Task& task, const std::stop_token& stop);
  void report(Milliseconds stood);
  [[nodiscard]] std::chrono::nanoseconds without_cpu() const;
  [[nodiscard]] bool is_blocked() const;

  boost::asio::io_context& io_;
  Milliseconds limit_;
  pid_t thread_id_;
  clockid_t thread_clock_ = 0;
  std::atomic<std::uint64_t> stalls_ = 0;
  std::atomic<std::int64_t> longest_ms_ = 0;
  std::jthread thread_;  // last, so that it ends before the members that it uses
};

}  // namespace profd
