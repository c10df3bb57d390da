// Makes calls into the kernel that may wait, in order, on a thread of its own. The io thread asks
// for a call, and later whether it has returned.
//
// These calls are: to attach and detach BPF programs, which waits for RCU grace periods, for all
// CPUs while the kernel changes its code, and for other programs that do the same; and to list all
// processes, which takes long where users have many threads.

#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>

namespace profd {

class KernelCalls {
 public:
  KernelCalls();
  KernelCalls(const KernelCalls&) = delete;
  KernelCalls& operator=(const KernelCalls&) = delete;
  // Makes the calls that wait.
  ~KernelCalls() = default;

  // Makes the call after all earlier ones, and destroys `call`, which may be move-only, on the
  // thread. The future gets what it returns, and does not wait when it is destroyed. Any thread.
  template <class Call>
  std::future<std::invoke_result_t<Call&>> run(Call call) {
    std::packaged_task<std::invoke_result_t<Call&>()> task(std::move(call));
    auto result = task.get_future();
    push(std::packaged_task<void()>([task = std::move(task)]() mutable { task(); }));
    return result;
  }

  // Whether there is a call, and it has returned.
  template <class T>
  [[nodiscard]] static bool has_returned(const std::future<T>& call) {
    return call.valid() && call.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

 private:
  using Call = std::packaged_task<void()>;

  void push(Call call);
  void serve(const std::stop_token& stop);

  std::mutex mutex_;  // guards calls_
  std::condition_variable_any changed_;
  std::deque<Call> calls_;
  std::jthread thread_;  // last, so that it ends before the members that it uses
};

}  // namespace profd
