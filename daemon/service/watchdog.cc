#include "daemon/service/watchdog.h"

#include <algorithm>
#include <utility>

#include "daemon/base/coroutines.h"
#include "daemon/base/log.h"

namespace profd {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
constexpr int kReportsPerTimeout = 3;  // so that one may be late

}  // namespace

Watchdog::Watchdog(boost::asio::io_context& io, ServiceManager& manager, HealthProbes probes,
                   const Times& times)
    : io_(io), manager_(manager), probes_(std::move(probes)), times_(times), timer_(io) {
  if (!manager.is_present()) return;
  if (const auto timeout = manager.watchdog_timeout()) {
    const auto share = std::chrono::duration_cast<milliseconds>(*timeout / kReportsPerTimeout);
    times_.interval = std::clamp(share, milliseconds(1), times_.interval);
  }
  spawn(io_, run());
}

void Watchdog::stop() {
  stopped_ = true;
  timer_.cancel();
}

boost::asio::awaitable<void> Watchdog::run() {
  while (!stopped_) {
    check();
    timer_.expires_after(times_.interval);
    co_await wait_for(timer_);
  }
}

// The worker is asked again only after it has answered, so at most one question waits.
void Watchdog::check() {
  const bool drained = rings_are_drained();
  const bool works = worker_is_alive();
  if (alive_ && !drained) log::critical("the rings are not drained any more");
  if (alive_ && !works) log::critical("the worker does not finish its jobs");
  alive_ = drained && works;
  if (alive_) manager_.alive();
  manager_.status(probes_.status());
  if (asked_at_) return;
  asked_at_ = steady_clock::now();
  spawn(io_, ask_worker());
}

boost::asio::awaitable<void> Watchdog::ask_worker() {
  co_await probes_.ask_worker();
  asked_at_.reset();
}

bool Watchdog::rings_are_drained() {
  const std::optional<std::uint64_t> before = std::exchange(drains_, probes_.drains());
  return !before || !drains_ || *before != *drains_;
}

bool Watchdog::worker_is_alive() const {
  return !asked_at_ || steady_clock::now() - *asked_at_ < times_.worker;
}

}  // namespace profd
