#include "daemon/base/freed_memory.h"

#include <sys/prctl.h>

#include <system_error>
#include <utility>

#include <malloc.h>

#include "collectors/host/thread_priority.h"

namespace profd {
namespace {

constexpr std::chrono::seconds kBetweenTrims{2};

// The locks are those of the io thread's memory, too.
void trim_memory() {
  const PriorityOfIoThread priority;
  ::malloc_trim(0);
}

}  // namespace

void return_freed_memory() noexcept {
  try {
    static FreedMemory memory(trim_memory, kBetweenTrims);
    memory.request();
  } catch (const std::system_error&) {
    trim_memory();  // no thread could be started
  }
}

FreedMemory::FreedMemory(std::function<void()> give_back, std::chrono::milliseconds pause)
    : give_back_(std::move(give_back)),
      pause_(pause),
      thread_([this](const std::stop_token& stop) { serve(stop); }) {}

void FreedMemory::request() {
  const std::scoped_lock lock(mutex_);
  is_requested_ = true;
  requested_.notify_one();
}

void FreedMemory::serve(const std::stop_token& stop) {
  ::prctl(PR_SET_NAME, "freed-memory");
  std::unique_lock lock(mutex_);
  while (requested_.wait(lock, stop, [this] { return is_requested_; })) {
    is_requested_ = false;
    lock.unlock();
    give_back_();
    lock.lock();
    // What is requested meanwhile waits, too.
    (void)requested_.wait_for(lock, stop, pause_, [] { return false; });
  }
}

}  // namespace profd
