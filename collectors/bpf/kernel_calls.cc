#include "collectors/bpf/kernel_calls.h"

#include <sys/prctl.h>

namespace profd {

KernelCalls::KernelCalls() : thread_([this](const std::stop_token& stop) { serve(stop); }) {}

void KernelCalls::push(Call call) {
  const std::lock_guard lock(mutex_);
  calls_.push_back(std::move(call));
  changed_.notify_one();
}

void KernelCalls::serve(const std::stop_token& stop) {
  ::prctl(PR_SET_NAME, "kernel-calls");
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return !calls_.empty(); })) {
    Call call = std::move(calls_.front());
    calls_.pop_front();
    lock.unlock();
    call();
    call = Call();
    lock.lock();
  }
}

}  // namespace profd
