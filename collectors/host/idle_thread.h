// Returns the memory that jemalloc keeps for a thread's next allocations.
//
// jemalloc keeps up to 64 freed allocations of each size for each thread, and each of them keeps
// the pages around it. A thread that allocates returns them by and by. One that waits does not, and
// the threads that destroy what a flood of processes left wait for most of the time.

#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace profd {

// For a thread that may wait for long from now on. Takes the locks of other threads' memory for
// some microseconds, at the priority of the io thread. Does nothing in a program without jemalloc.
void return_memory_of_thread() noexcept;

// A thread that had nothing to do for so long is idle.
inline constexpr std::chrono::seconds kIdleAfter{1};

// Waits until `is_ready` holds, as std::condition_variable::wait() does. `lock` is not held while
// the memory is returned.
template <class IsReady>
void wait_and_return_memory(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                            const IsReady& is_ready) {
  if (changed.wait_for(lock, kIdleAfter, is_ready)) return;
  lock.unlock();
  return_memory_of_thread();
  lock.lock();
  changed.wait(lock, is_ready);
}

}  // namespace profd
