// A thread beside the io thread, for work that takes long: encoding, symbols, files.
//
// A job gets moved values, or shared ones that never change, and gives moved values back. So
// nothing is locked.

#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <boost/asio/awaitable.hpp>

#include "collectors/host/thread_priority.h"
#include "formats/base/result.h"

namespace boost::asio {
class thread_pool;
}

namespace profd {

class Worker {
 public:
  // `name` is the thread's, at most 15 bytes, and stays valid. `niceness` as of nice(2).
  explicit Worker(const char* name, int niceness = 0);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Waits until all jobs are done.
  ~Worker();

  // Runs `job`, a move-only callable without arguments, on the worker's thread after all earlier
  // jobs, and destroys it there. Awaited by a coroutine of the io thread, which resumes there with
  // the return value. A job returns a Result, in which an exception (no memory) becomes
  // kInternal, or is noexcept.
  template <class Job>
  boost::asio::awaitable<std::invoke_result_t<Job&>> run(Job job) {
    std::optional<std::invoke_result_t<Job&>> value;
    std::optional<Job> pending(std::move(job));
    const std::function<void()> run_and_destroy = [&value, &pending] {
      value.emplace(without_throwing(*pending));
      const PriorityOfIoThread priority;  // the io thread allocated the arguments
      pending.reset();
    };
    co_await run_on_thread(run_and_destroy);
    co_return std::move(*value);
  }

 private:
  template <class Job>
  static std::invoke_result_t<Job&> without_throwing(Job& job) noexcept {
    if constexpr (std::is_nothrow_invocable_v<Job&>) {
      return job();
    } else {
      try {
        return job();
      } catch (const std::exception& problem) {
        return error_of(problem);
      }
    }
  }
  static Error error_of(const std::exception& problem);

  // `job` lives in the caller's coroutine frame, which waits.
  boost::asio::awaitable<void> run_on_thread(const std::function<void()>& job);

  std::atomic<std::size_t> jobs_ = 0;  // that wait or run
  std::unique_ptr<boost::asio::thread_pool> thread_;
};

}  // namespace profd
