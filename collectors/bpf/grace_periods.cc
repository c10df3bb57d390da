#include "collectors/bpf/grace_periods.h"

#include <sys/prctl.h>

#include <utility>

namespace profd {

GracePeriods::GracePeriods(std::function<void()> wait)
    : wait_(std::move(wait)), thread_([this](const std::stop_token& stop) { serve(stop); }) {}

std::uint64_t GracePeriods::begin() {
  const std::lock_guard lock(mutex_);
  changed_.notify_one();
  return ++begun_;
}

// One wait serves all that began before it.
void GracePeriods::serve(const std::stop_token& stop) {
  ::prctl(PR_SET_NAME, "grace-periods");
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return ended_ < begun_; })) {
    const std::uint64_t number = begun_;
    lock.unlock();
    wait_();
    ended_ = number;
    lock.lock();
  }
}

}  // namespace profd
