// Waits, on a thread of its own, until the runs of the BPF programs have ended that a removal may
// concern: an RCU grace period, which takes 10 to 30 ms.
//
// The io thread removes something from a map, begins a grace period, and reuses the memory once it
// is over.

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

namespace profd {

// begin() and is_over() are for one thread.
class GracePeriods {
 public:
  // `wait` returns when all runs that began before its call have ended. Called on the thread.
  explicit GracePeriods(std::function<void()> wait);
  GracePeriods(const GracePeriods&) = delete;
  GracePeriods& operator=(const GracePeriods&) = delete;
  // Waits for a grace period that has begun.
  ~GracePeriods() = default;

  // Returns the number of the grace period, for is_over().
  [[nodiscard]] std::uint64_t begin();
  [[nodiscard]] bool is_over(std::uint64_t number) const { return ended_ >= number; }

 private:
  void serve(const std::stop_token& stop);

  std::function<void()> wait_;
  std::atomic<std::uint64_t> ended_ = 0;
  std::mutex mutex_;  // guards begun_
  std::condition_variable_any changed_;
  std::uint64_t begun_ = 0;
  std::jthread thread_;  // last, so that it ends before the members that it uses
};

}  // namespace profd
