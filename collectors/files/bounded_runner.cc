#include "collectors/files/bounded_runner.h"

#include <sys/prctl.h>

#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

#include "collectors/host/idle_thread.h"
#include "collectors/host/thread_priority.h"

namespace profd {

// One thread and the call that it has. Both sides own it: a thread may be late for longer than the
// runner lives.
class BoundedRunner::Thread {
 public:
  static std::shared_ptr<Thread> start() {
    auto thread = std::make_shared<Thread>();
    std::thread([thread] { thread->serve(); }).detach();
    return thread;
  }

  [[nodiscard]] bool is_free() {
    const std::lock_guard lock(mutex_);
    return !is_busy_;
  }
  [[nodiscard]] std::uint32_t user() const { return user_; }

  // True when the call has returned within kMaxWait.
  bool run(std::uint32_t user, std::function<void()> call) {
    user_ = user;
    std::unique_lock lock(mutex_);
    call_ = std::move(call);
    is_busy_ = true;
    is_late_ = false;
    changed_.notify_all();
    is_late_ = !changed_.wait_for(lock, kMaxWait, [this] { return !is_busy_; });
    return !is_late_;
  }

  void end() {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    changed_.notify_all();
  }

 private:
  void serve() {
    ::prctl(PR_SET_NAME, "blocking-call");
    lower_priority_of_worker();
    std::unique_lock lock(mutex_);
    for (;;) {
      wait_and_return_memory(changed_, lock, [this] { return has_ended_ || call_; });
      if (!call_) return;
      std::function<void()> call = std::exchange(call_, nullptr);
      lock.unlock();
      call();
      lock.lock();
      if (is_late_) {
        // To destroy a late result, a file for instance, may block too.
        lock.unlock();
        call = nullptr;
        lock.lock();
      }
      is_busy_ = false;
      changed_.notify_all();
      if (has_ended_) return;
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> call_;
  std::uint32_t user_ = 0;  // of the call; the owner of the runner alone uses it
  bool is_busy_ = false;
  bool is_late_ = false;
  bool has_ended_ = false;
};

BoundedRunner::~BoundedRunner() {
  for (const std::shared_ptr<Thread>& thread : threads_) thread->end();
}

bool BoundedRunner::may_block_thread(std::uint32_t user) {
  if (user == 0) return true;
  std::size_t late_of_users = 0;
  for (const std::shared_ptr<Thread>& thread : threads_) {
    if (thread->user() == 0 || thread->is_free()) continue;
    if (thread->user() == user) return false;
    ++late_of_users;
  }
  return late_of_users < kMaxThreadsOfUsers;
}

BoundedRunner::Thread* BoundedRunner::free_thread(std::uint32_t user) {
  if (!may_block_thread(user)) return nullptr;
  for (const std::shared_ptr<Thread>& thread : threads_) {
    if (thread->is_free()) return thread.get();
  }
  if (threads_.size() >= kMaxThreads) return nullptr;
  try {
    return threads_.emplace_back(Thread::start()).get();
  } catch (const std::system_error&) {
    return nullptr;  // no memory or process is free: the next call tries again
  }
}

bool BoundedRunner::has_thread_for(std::uint32_t uid) {
  return free_thread(owners_.owner_of(uid)) != nullptr;
}

bool BoundedRunner::run_in_time(std::uint32_t uid, std::function<void()> call) {
  const std::uint32_t user = owners_.owner_of(uid);
  Thread* const thread = free_thread(user);
  return thread != nullptr && thread->run(user, std::move(call));
}

}  // namespace profd
