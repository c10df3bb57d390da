#include "daemon/service/watchdog.h"

#include <algorithm>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <spdlog/spdlog.h>

namespace profd {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr auto kTuple = boost::asio::as_tuple(boost::asio::use_awaitable);
constexpr int kSignsWithinPatience = 3;  // so that one may be late

}  // namespace

Watchdog::Watchdog(boost::asio::io_context& io, ServiceManager& manager, HealthProbes health_probes)
    : Watchdog(io, manager, std::move(health_probes), Times{}) {}

Watchdog::Watchdog(boost::asio::io_context& io, ServiceManager& manager, HealthProbes health_probes,
                   const Times& times)
    : io_(io),
      manager_(manager),
      health_probes_(std::move(health_probes)),
      times_(times),
      timer_(io) {
  if (!manager.is_there()) return;
  if (const auto patience = manager.patience()) {
    const auto share = std::chrono::duration_cast<milliseconds>(*patience / kSignsWithinPatience);
    times_.beat = std::clamp(share, milliseconds(1), times_.beat);
  }
  boost::asio::co_spawn(io_, beat(), boost::asio::detached);
}

void Watchdog::stop() {
  stopped_ = true;
  timer_.cancel();
}

boost::asio::awaitable<void> Watchdog::beat() {
  while (!stopped_) {
    look();
    timer_.expires_after(times_.beat);
    co_await timer_.async_wait(kTuple);
  }
}

// The worker is asked anew only when it has answered, so that at most one question waits.
void Watchdog::look() {
  const bool drained = rings_are_drained();
  const bool worked = worker_gets_on();
  if (alive_ && !drained) spdlog::critical("the rings are not drained any more");
  if (alive_ && !worked) spdlog::critical("the worker does not end its work");
  alive_ = drained && worked;
  if (alive_) manager_.alive();
  manager_.status(health_probes_.status());
  if (asked_at_) return;
  asked_at_ = steady_clock::now();
  boost::asio::co_spawn(io_, ask_worker(), boost::asio::detached);
}

boost::asio::awaitable<void> Watchdog::ask_worker() {
  co_await health_probes_.ask_worker();
  asked_at_.reset();
}

bool Watchdog::rings_are_drained() {
  const std::optional<std::uint64_t> before = std::exchange(drains_, health_probes_.drains());
  return !before || !drains_ || *before != *drains_;
}

bool Watchdog::worker_gets_on() {
  return !asked_at_ || steady_clock::now() - *asked_at_ < times_.worker;
}

}  // namespace profd
