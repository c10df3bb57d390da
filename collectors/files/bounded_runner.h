// Runs calls that may block on threads of its own, and waits for each call only so long.
//
// An open through /proc/PID/map_files takes the lock of the process's memory, which the process can
// hold for half a second and more (fork or munmap of much memory). A file system that a user serves
// may never answer. Nothing interrupts such a call, so the io thread must not make it: it gives the
// call to a thread here, and continues without the result when the thread is late.
//
// A late thread is not used until its call returns. While all threads are late, calls fail at once.
// One user other than root blocks at most one thread, with the user's subordinate uids
// (uid_owners.h), and all such users together block kMaxThreadsOfUsers: the calls for the user or
// the users fail at once meanwhile, and the other threads are root's.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "collectors/host/uid_owners.h"

namespace profd {

// Not thread safe: one thread owns it.
class BoundedRunner {
 public:
  static constexpr std::size_t kMaxThreads = 4;
  static constexpr std::size_t kMaxThreadsOfUsers = kMaxThreads / 2;
  // An open takes 20 us; on a busy host the thread may have to wait for a CPU.
  static constexpr std::chrono::milliseconds kMaxWait{50};

  explicit BoundedRunner(UidOwners owners = UidOwners()) : owners_(std::move(owners)) {}
  BoundedRunner(const BoundedRunner&) = delete;
  BoundedRunner& operator=(const BoundedRunner&) = delete;
  // Late threads end when their calls return.
  ~BoundedRunner();

  // Whether run() has a thread for a call for this user.
  [[nodiscard]] bool has_thread_for(std::uint32_t uid);

  // What `call` returns; none where it takes longer than kMaxWait, or no thread is free or can be
  // started. `uid` is the user who can make the call block. `call` owns all that it needs, since it
  // may still run after this has returned. A result that is late is destroyed on the late thread.
  template <class Call>
  [[nodiscard]] std::optional<std::invoke_result_t<Call&>> run(std::uint32_t uid, Call call) {
    auto result = std::make_shared<std::optional<std::invoke_result_t<Call&>>>();
    const bool in_time =
        run_in_time(uid, [result, call = std::move(call)]() mutable { result->emplace(call()); });
    if (!in_time) return std::nullopt;
    return std::move(*result);
  }

 private:
  class Thread;
  [[nodiscard]] bool may_block_thread(std::uint32_t user);
  Thread* free_thread(std::uint32_t user);
  bool run_in_time(std::uint32_t uid, std::function<void()> call);

  UidOwners owners_;
  std::vector<std::shared_ptr<Thread>> threads_;
};

}  // namespace profd
