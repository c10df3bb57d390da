#include "collectors/files/file_opener.h"

#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include <semaphore.h>

#include "collectors/host/idle_thread.h"
#include "collectors/host/thread_priority.h"
#include "formats/base/unique_fd.h"

namespace profd {
namespace {

// To wake a thread. The signal of a condition variable may wait until a thread has run that was
// woken before, which takes long on a busy host: this never waits.
class Wakeups {
 public:
  Wakeups() { ::sem_init(&semaphore_, 0, 0); }
  Wakeups(const Wakeups&) = delete;
  Wakeups& operator=(const Wakeups&) = delete;
  ~Wakeups() { ::sem_destroy(&semaphore_); }

  void wake_one() { ::sem_post(&semaphore_); }
  // Returns at once for each wake_one() that no thread has used. It may return without one.
  void wait() { ::sem_wait(&semaphore_); }

 private:
  sem_t semaphore_{};
};

// For the mutex that the io thread locks too. With its own priority, a thread that holds it could
// wait 50 ms for a CPU.
class RaisedLock {
 public:
  explicit RaisedLock(std::mutex& mutex) : lock_(mutex) {}

 private:
  PriorityOfIoThread priority_;
  std::lock_guard<std::mutex> lock_;  // released first
};

}  // namespace

class FileOpener::Shared : public std::enable_shared_from_this<Shared> {
 public:
  explicit Shared(Open open)
      : open_(std::move(open)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  bool submit(std::uint32_t uid, MappingPlace place) {
    std::unique_lock lock(mutex_);
    if (!has_room_for(uid)) return false;
    queues_[uid].push_back(std::move(place));
    ++queued_;
    if (uid != kRoot) ++queued_of_users_;
    start_thread_if_needed();
    const bool is_one_idle = idle_ != 0;
    lock.unlock();
    if (is_one_idle) wakeups_.wake_one();
    return true;
  }

  std::vector<MappedFile> take() {
    const std::lock_guard lock(mutex_);
    start_thread_if_needed();
    std::uint64_t ignored = 0;
    (void)!::read(wake_.get(), &ignored, sizeof ignored);
    return std::exchange(opened_, {});
  }

  [[nodiscard]] int wake_fd() const { return wake_.get(); }

  void end() {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    for (std::size_t i = 0; i < idle_; ++i) wakeups_.wake_one();
  }

 private:
  using Clock = std::chrono::steady_clock;

  static constexpr std::uint32_t kRoot = 0;

  struct Call {
    std::uint32_t uid = 0;
    Clock::time_point since;
  };
  struct Next {
    std::list<Call>::iterator call;
    MappingPlace place;
  };

  [[nodiscard]] bool has_room_for(std::uint32_t uid) const {
    if (queued_ >= kMaxQueued) return false;
    if (uid == kRoot) return true;
    const auto of_user = queues_.find(uid);
    return queued_of_users_ < kMaxQueuedOfUsers &&
           (of_user == queues_.end() || of_user->second.size() < kMaxQueuedOfUser);
  }

  // A thread that hangs may do so for ever, so it counts until its call returns.
  void start_thread_if_needed() {
    if (queued_ == 0 || idle_ != 0 || is_starting_ || calls_.size() >= kMaxThreads) return;
    const auto hangs_since = Clock::now() - kHangsAfter;
    const auto hangs = [&](const Call& call) { return call.since <= hangs_since; };
    if (!std::ranges::all_of(calls_, hangs)) return;
    try {
      std::thread([shared = shared_from_this()] { shared->serve(); }).detach();
      is_starting_ = true;
    } catch (const std::system_error&) {
      return;  // no memory or process is free: the next take() tries again
    }
  }

  void serve() {
    ::prctl(PR_SET_NAME, "blocking-call");
    lower_priority_of_worker();
    begin();
    for (;;) {
      const std::optional<Next> next = take_next_or_idle();
      if (next) {
        if (!keep(next->call, open_(next->place))) return;
      } else if (!wait_for_next()) {
        return;
      }
    }
  }

  void begin() {
    const RaisedLock lock(mutex_);
    is_starting_ = false;
  }

  // None: the thread has to wait, and counts as idle.
  std::optional<Next> take_next_or_idle() {
    const RaisedLock lock(mutex_);
    std::optional<Next> next = take_next();
    if (next) return next;
    ++idle_;
    if (has_ended_) wakeups_.wake_one();  // end() did not know of this thread
    return std::nullopt;
  }

  // False: there will be no more.
  bool wait_for_next() {
    return_memory_of_thread();
    wakeups_.wait();
    const RaisedLock lock(mutex_);
    --idle_;
    return !has_ended_;
  }

  // False: nobody takes files any more.
  bool keep(std::list<Call>::iterator call, MappedFile file) {
    {
      const RaisedLock lock(mutex_);
      calls_.erase(call);
      if (has_ended_) return false;
      opened_.push_back(std::move(file));
    }
    const std::uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof one);
    return true;
  }

  [[nodiscard]] bool may_start(std::uint32_t uid) const {
    if (uid == kRoot) return true;
    const auto of_root = static_cast<std::size_t>(std::ranges::count(calls_, kRoot, &Call::uid));
    return std::ranges::find(calls_, uid, &Call::uid) == calls_.end() &&
           calls_.size() - of_root < kMaxThreadsOfUsers;
  }

  // The users take turns.
  std::optional<Next> take_next() {
    auto at = queues_.upper_bound(last_uid_);
    for (std::size_t tried = 0; tried < queues_.size(); ++tried, ++at) {
      if (at == queues_.end()) at = queues_.begin();
      if (!may_start(at->first)) continue;
      last_uid_ = at->first;
      const Call call{.uid = at->first, .since = Clock::now()};
      Next next{.call = calls_.insert(calls_.end(), call), .place = std::move(at->second.front())};
      at->second.pop_front();
      if (at->second.empty()) queues_.erase(at);
      --queued_;
      if (call.uid != kRoot) --queued_of_users_;
      return next;
    }
    return std::nullopt;
  }

  Open open_;
  UniqueFd wake_;
  std::mutex mutex_;
  Wakeups wakeups_;
  std::map<std::uint32_t, std::deque<MappingPlace>> queues_;  // by uid; none is empty
  std::size_t queued_ = 0;
  std::size_t queued_of_users_ = 0;
  std::uint32_t last_uid_ = 0;
  std::list<Call> calls_;
  std::size_t idle_ = 0;
  bool is_starting_ = false;
  std::vector<MappedFile> opened_;
  bool has_ended_ = false;
};

FileOpener::FileOpener(Open open) : shared_(std::make_shared<Shared>(std::move(open))) {}

FileOpener::~FileOpener() { shared_->end(); }

bool FileOpener::submit(std::uint32_t uid, MappingPlace place) {
  return shared_->submit(uid, std::move(place));
}

std::vector<MappedFile> FileOpener::take() { return shared_->take(); }

int FileOpener::wake_fd() const { return shared_->wake_fd(); }

}  // namespace profd
