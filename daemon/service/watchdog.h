// Tells the service manager that the daemon lives, for as long as all of it does: the rings are
// drained and the worker gets on with its work. One that hangs is then ended and started again.
//
// Beside that, a line about what the daemon does, for `systemctl status`. On the io thread.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "daemon/service/service_manager.h"

namespace profd {

// How the daemon's parts are felt for.
struct HealthProbes {
  // Grows as long as rings are drained; none while there is nothing to drain.
  std::function<std::optional<std::uint64_t>()> drains;
  // Returns when the worker has done all that it was given before.
  std::function<boost::asio::awaitable<void>()> ask_worker;
  std::function<std::string()> status;
};

class Watchdog {
 public:
  struct Times {
    // Between two signs; the manager's patience shortens it to a third of itself.
    std::chrono::milliseconds beat{10'000};
    // The longest time that the worker may take for what it was given: profctl waits as long for
    // the end of a session.
    std::chrono::milliseconds worker{600'000};
  };

  // All but the times must outlive *this; `io` must have run dry before it goes. Nothing happens
  // when there is no manager.
  Watchdog(boost::asio::io_context& io, ServiceManager& manager, HealthProbes health_probes);
  Watchdog(boost::asio::io_context& io, ServiceManager& manager, HealthProbes health_probes,
           const Times& times);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void stop();

 private:
  boost::asio::awaitable<void> beat();
  boost::asio::awaitable<void> ask_worker();
  void look();
  [[nodiscard]] bool rings_are_drained();
  [[nodiscard]] bool worker_gets_on();

  boost::asio::io_context& io_;
  ServiceManager& manager_;
  HealthProbes health_probes_;
  Times times_;
  boost::asio::steady_timer timer_;
  std::optional<std::uint64_t> drains_;                            // at the last look
  std::optional<std::chrono::steady_clock::time_point> asked_at_;  // the worker, without an answer
  bool alive_ = true;
  bool stopped_ = false;
};

}  // namespace profd
