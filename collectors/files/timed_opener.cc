#include "collectors/files/timed_opener.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace profd {

// One thread and the one job that it has. Both sides hold it: a thread may be late for longer than
// the opener lives.
class TimedOpener::Lane {
 public:
  static std::shared_ptr<Lane> start() {
    auto lane = std::make_shared<Lane>();
    std::thread([lane] { lane->serve(); }).detach();
    return lane;
  }

  [[nodiscard]] bool is_free() {
    const std::lock_guard lock(mutex_);
    return !job_;
  }
  [[nodiscard]] bool is_late_for(std::uint32_t uid) { return uid == uid_ && !is_free(); }

  std::optional<MappedFile> run(std::function<MappedFile()> job, std::uint32_t uid) {
    uid_ = uid;
    std::unique_lock lock(mutex_);
    job_ = std::move(job);
    result_.reset();
    given_up_ = false;
    changed_.notify_all();
    given_up_ = !changed_.wait_for(lock, kMaxWait, [this] { return !job_; });
    return std::move(result_);
  }

  void end() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return ended_ || job_; });
      if (!job_) return;
      lock.unlock();
      std::optional<MappedFile> opened = job_();
      lock.lock();
      if (!given_up_) result_ = std::move(opened);
      job_ = nullptr;
      changed_.notify_all();
      if (ended_) return;
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<MappedFile()> job_;  // called unlocked; changed by the other side only when empty
  std::optional<MappedFile> result_;
  std::uint32_t uid_ = 0;  // the job's; of the caller's side alone
  bool given_up_ = false;
  bool ended_ = false;
};

TimedOpener::~TimedOpener() {
  for (const std::shared_ptr<Lane>& lane : lanes_) lane->end();
}

TimedOpener::Lane* TimedOpener::free_lane(std::uint32_t uid) {
  const auto is_late = [uid](const auto& lane) { return lane->is_late_for(uid); };
  if (uid != 0 && std::ranges::any_of(lanes_, is_late)) return nullptr;
  for (const std::shared_ptr<Lane>& lane : lanes_) {
    if (lane->is_free()) return lane.get();
  }
  if (lanes_.size() >= kMaxThreads) return nullptr;
  return lanes_.emplace_back(Lane::start()).get();
}

std::optional<MappedFile> TimedOpener::run(std::function<MappedFile()> open, std::uint32_t uid) {
  Lane* const lane = free_lane(uid);
  if (lane == nullptr) return std::nullopt;
  return lane->run(std::move(open), uid);
}

}  // namespace profd
