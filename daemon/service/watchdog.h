// Reports to the service manager that the daemon is alive, as long as the rings are drained and the
// worker finishes its jobs. The manager restarts a daemon that hangs.
//
// Sends a status line for `systemctl status` as well. On the io thread.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "daemon/service/service_manager.h"

namespace profd {

// How to check the daemon's parts.
struct HealthProbes {
  // Grows as long as rings are drained; none while there is nothing to drain.
  std::function<std::optional<std::uint64_t>()> drains;
  // Returns when the worker has finished all earlier jobs.
  std::function<boost::asio::awaitable<void>()> ask_worker;
  std::function<std::string()> status;
};

class Watchdog {
 public:
  struct Times {
    // Between two reports; at most a third of the manager's timeout.
    std::chrono::milliseconds interval{10'000};
    // For all jobs that the worker has. profctl waits as long for the end of a session.
    std::chrono::milliseconds worker{600'000};
  };

  // All but the times must outlive the watchdog; `io` must have run dry before it is destroyed.
  // Does nothing without a manager.
  Watchdog(boost::asio::io_context& io, ServiceManager& manager, HealthProbes probes,
           const Times& times);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void stop();

 private:
  boost::asio::awaitable<void> run();
  boost::asio::awaitable<void> ask_worker();
  void check();
  [[nodiscard]] bool rings_are_drained();
  [[nodiscard]] bool worker_is_alive() const;

  boost::asio::io_context& io_;
  ServiceManager& manager_;
  HealthProbes probes_;
  Times times_;
  boost::asio::steady_timer timer_;
  std::optional<std::uint64_t> drains_;                            // at the last check
  std::optional<std::chrono::steady_clock::time_point> asked_at_;  // the worker has not answered
  bool alive_ = true;
  bool stopped_ = false;
};

}  // namespace profd
