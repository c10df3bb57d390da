// Gives freed memory back to the kernel.
//
// malloc keeps what is freed, also whole pages of it, until it is asked. That takes 10 to 30 ms, in
// which it locks the memory of one thread after the other, that of the io thread too. So a thread
// of its own asks, once for all requests of some time: with one call for each job, the io thread
// would wait for those locks again and again while many jobs run.

#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace profd {

// Soon. Returns at once. Any thread but the io thread, which may not wait for the others' lock.
void return_freed_memory() noexcept;

// What return_freed_memory() has one of: calls `give_back` on a thread of its own, soon after a
// request, and at the earliest `pause` after the end of the call before.
class FreedMemory {
 public:
  FreedMemory(std::function<void()> give_back, std::chrono::milliseconds pause);

  // Any thread.
  void request();

 private:
  void serve(const std::stop_token& stop);

  std::function<void()> give_back_;
  std::chrono::milliseconds pause_;
  std::mutex mutex_;
  std::condition_variable_any requested_;
  bool is_requested_ = false;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace profd
